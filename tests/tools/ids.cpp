// ids MODEL: forty tokens, the likeliest ones, after token 1.
#include <iostream>
#include <weft/weft.hpp>

int main(int argc, char** argv) try {
  if (argc != 2) return 2;
  const weft::api::Model model(argv[1]);
  weft::api::Session session(model);
  weft_sampling greedy = weft_sampling_default();
  greedy.temperature = 0;
  session.set_sampling(greedy);
  session.prompt({1});
  const auto print = [](std::uint32_t id, std::string_view) { return static_cast<bool>(std::cout << id << '\n'); };
  session.generate(40, print, true);
} catch (const weft::api::Failure& failure) {
  std::cerr << failure.what() << '\n';
  return 1;
}
