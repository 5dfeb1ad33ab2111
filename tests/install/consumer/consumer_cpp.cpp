// Uses weft.hpp: with a model, generates a few tokens; without, shows that failures come as exceptions.
#include <iostream>
#include <weft/weft.hpp>

int main(int argc, char** argv) try {
  if (argc < 2) {
    std::cout << weft::api::version() << '\n';
    weft::api::Model missing("/no/such/model");
    return 1;
  }
  const weft::api::Model model(argv[1]);
  weft::api::Session session(model);
  session.prompt({1});
  std::size_t tokens = 0;
  session.generate(
      4, [&](std::uint32_t, std::string_view) { return ++tokens, true; }, true);
  try {  // an exception crosses the C library unharmed
    session.generate(
        4, [](std::uint32_t, std::string_view) -> bool { throw 42; }, true);
    return 1;
  } catch (int thrown) {
    std::cout << tokens << " tokens, " << thrown << " thrown\n";
  }
  return tokens == 4 ? 0 : 1;
} catch (const weft::api::Failure& failure) {
  std::cout << weft_status_name(failure.status()) << ": " << failure.what() << '\n';
  return argc < 2 && !failure.sentence().empty() ? 0 : 3;
}
