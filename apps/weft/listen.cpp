// weft listen: writes down what is said in a recording, with a Whisper model.
#include <iostream>
#include <optional>
#include <weft/audio.hpp>

#include "common.h"
#include "progress_bar.h"
#include "recording.h"
#include "subtitles.h"

namespace weft::cli {
namespace {

struct ListenArgs {
  ModelArgs model;
  std::string file, form = "text";
  api::ListenOptions options;
};

Json words_of(const weft_heard& heard) {
  Json words = Json::array();
  for (std::size_t i = 0; i < heard.word_count; ++i)
    words.push_back({{"word", heard.words[i].text}, {"start", heard.words[i].begin}, {"end", heard.words[i].end}});
  return words;
}

void listen(ListenArgs args) {
  require_utf8("--language", args.options.language);
  require_utf8("--prompt", args.options.prompt);
  std::optional<api::Model> model;
  std::optional<api::Listener> listener;
  std::optional<ProgressBar> bar;  // if the duration is known
  double all_seconds = 0;
  Json segments = Json::array();
  std::string all;
  std::size_t number = 0;
  const auto print = [&](double begin, double end, const char* text) {
    ++number;
    if (args.form == "text" && args.options.words) std::cout << clock_text(begin) << ' ' << clock_text(end) << ' ';
    if (args.form == "text") std::cout << one_line(text) << '\n';
    if (args.form == "srt") std::cout << srt_cue(number, begin, end, text);
    if (args.form == "vtt") std::cout << vtt_cue(begin, end, text);
  };
  const auto tell = [&](const weft_heard& heard) {
    if (bar) bar->hide();
    if (!args.options.words) print(heard.begin, heard.end, heard.text);
    for (std::size_t i = 0; i < heard.word_count; ++i)
      print(heard.words[i].begin, heard.words[i].end, heard.words[i].text);
    std::cout.flush();
    if (bar) bar->update(heard.end / all_seconds);
    if (args.form != "json") return true;
    all += heard.text;
    segments.push_back({{"start", heard.begin},
                        {"end", heard.end},
                        {"text", heard.text},
                        {"avg_logprob", heard.mean_logprob},
                        {"no_speech_prob", heard.no_speech}});
    if (args.options.words) segments.back()["words"] = words_of(heard);
    return true;
  };
  const auto begin = [&](const RecordingInfo& recording) {
    model.emplace(load_model(args.model));
    listener.emplace(*model);
    args.options.samples_per_second = recording.rate;
    listener->begin(args.options, tell);
    if (args.form == "vtt") std::cout << "WEBVTT\n\n";
    all_seconds = recording.seconds;
    if (all_seconds > 0) bar.emplace("listening").update(0);
  };
  const double seconds =
      read_recording(args.file, begin, [&](const std::vector<float>& samples) { listener->feed(samples); });
  listener->finish();
  bar.reset();
  if (args.form == "json")
    print_json(
        {{"language", listener->language()}, {"duration", seconds}, {"text", one_line(all)}, {"segments", segments}});
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
  command
      ->add_option("--language", args->options.language,
                   "code of the language, such as de (default: found by the model)")
      ->type_name("CODE");
  command->add_flag("--translate", args->options.translate, "write English, whatever is spoken");
  command
      ->add_option("--prompt", args->options.prompt,
                   "text that might come before the recording, for names and spelling")
      ->type_name("TEXT");
  command->add_flag("--words", args->options.words, "times of words: a line, a cue or a JSON object for each");
  command
      ->add_option("--temperature", args->options.temperatures,
                   "0 to 2, tried in turn until the text seems right (default: 0,0.2,0.4,0.6,0.8,1)")
      ->type_name("T[,T...]")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Range(0.0, 2.0));
  command->add_option("--format", args->form, "text, srt, vtt or json")
      ->type_name("FORMAT")
      ->capture_default_str()
      ->check(CLI::IsMember({"text", "srt", "vtt", "json"}));
  command->callback([args] { listen(*args); });
}

}  // namespace weft::cli
