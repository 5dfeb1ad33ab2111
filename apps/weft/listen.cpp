// weft listen: writes down what is said in a recording, with a Whisper model.
#include <cmath>
#include <iostream>
#include <weft/audio.hpp>

#include "common.h"
#include "recording.h"

namespace weft::cli {
namespace {

struct ListenArgs {
  ModelArgs model;
  std::string file, language, form = "text";
  bool translate = false;
};

// "01:02:03.456", with the mark that the format has before the milliseconds.
std::string time_text(double seconds, char mark) {
  const long long all = std::llround(seconds * 1000);
  return format("%02lld:%02lld:%02lld%c%03lld", all / 3600000, all / 60000 % 60, all / 1000 % 60, mark, all % 1000);
}

// On one line, without spaces around it.
std::string one_line(std::string text) {
  for (char& c : text)
    if (c == '\n' || c == '\r') c = ' ';
  const std::size_t first = text.find_first_not_of(' ');
  return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(' ') + 1 - first);
}

// In a cue of WebVTT these begin and end marks.
std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) result += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : std::string(1, c);
  return result;
}

void listen(const ListenArgs& args) {
  require_utf8("--language", args.language);
  const std::vector<float> samples = read_recording(args.file);
  const api::Model model = load_model(args.model);
  api::Listener listener(model);
  Json segments = Json::array();
  std::string all;
  std::size_t number = 0;
  if (args.form == "vtt") std::cout << "WEBVTT\n\n";
  listener.listen(samples, args.language, args.translate, [&](const weft_heard& heard) {
    const std::string text = one_line(heard.text);
    ++number;
    if (args.form == "text") std::cout << text << '\n';
    if (args.form == "srt")
      std::cout << number << '\n'
                << time_text(heard.begin, ',') << " --> " << time_text(heard.end, ',') << '\n'
                << text << "\n\n";
    if (args.form == "vtt")
      std::cout << time_text(heard.begin, '.') << " --> " << time_text(heard.end, '.') << '\n'
                << escaped(text) << "\n\n";
    std::cout.flush();
    if (args.form != "json") return;
    all += heard.text;
    segments.push_back({{"start", heard.begin},
                        {"end", heard.end},
                        {"text", heard.text},
                        {"avg_logprob", heard.mean_logprob},
                        {"no_speech_prob", heard.no_speech}});
  });
  if (args.form != "json") return;
  const double seconds = static_cast<double>(samples.size()) / WEFT_SAMPLES_PER_SECOND;
  print_json(
      {{"language", listener.language()}, {"duration", seconds}, {"text", one_line(all)}, {"segments", segments}});
}

}  // namespace

void add_listen(CLI::App& app) {
  auto args = std::make_shared<ListenArgs>();
  CLI::App* command = app.add_subcommand("listen", "Write down what is said in a recording, with a Whisper model");
  command->footer(
      "FILE is a WAV, FLAC, Ogg or MP3 file; -, stdin, may also have bare samples: 16 bits, little-endian, one "
      "channel,\n"
      "16000 a second. A microphone: arecord -t raw -f S16_LE -r 16000 -d 10 | weft listen -m whisper-base -");
  add_model_options(command, args->model);
  command->add_option("FILE", args->file, "the recording, or - for stdin")->required();
  command->add_option("--language", args->language, "code of the language, such as de (default: found by the model)")
      ->type_name("CODE");
  command->add_flag("--translate", args->translate, "write English, whatever is spoken");
  command->add_option("--format", args->form, "text, srt, vtt or json")
      ->type_name("FORMAT")
      ->capture_default_str()
      ->check(CLI::IsMember({"text", "srt", "vtt", "json"}));
  command->callback([args] { listen(*args); });
}

}  // namespace weft::cli
