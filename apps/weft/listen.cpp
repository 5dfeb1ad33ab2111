// weft listen: writes down what is said in a recording, with a Whisper model.
#include <iostream>
#include <weft/audio.hpp>

#include "common.h"
#include "recording.h"
#include "subtitles.h"

namespace weft::cli {
namespace {

struct ListenArgs {
  ModelArgs model;
  std::string file, language, form = "text";
  bool translate = false;
};

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
    ++number;
    if (args.form == "text") std::cout << one_line(heard.text) << '\n';
    if (args.form == "srt") std::cout << srt_cue(number, heard.begin, heard.end, heard.text);
    if (args.form == "vtt") std::cout << vtt_cue(heard.begin, heard.end, heard.text);
    std::cout.flush();
    if (args.form != "json") return true;
    all += heard.text;
    segments.push_back({{"start", heard.begin},
                        {"end", heard.end},
                        {"text", heard.text},
                        {"avg_logprob", heard.mean_logprob},
                        {"no_speech_prob", heard.no_speech}});
    return true;
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
