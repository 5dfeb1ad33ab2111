#include "transcriptions.h"

#include <algorithm>
#include <exception>

#include "../weft/common.h"
#include "../weft/recording.h"
#include "../weft/subtitles.h"
#include "fields.h"

namespace weft::serve {
namespace {

constexpr std::size_t kMostParts = 64, kMostPrompt = 16384;
constexpr std::uint32_t kLongestRecording = 30 * 60;  // seconds

[[noreturn]] void bad_form(const std::string& sentence) {
  throw RequestError(400, "invalid_request_error", "invalid_form", sentence);
}

// The value of a parameter in a header's value: of "name" in `form-data; name="file"; filename="a.wav"`.
std::string parameter_of(std::string_view header, std::string_view name) {
  for (std::size_t at = header.find(';'); at != header.npos; at = header.find(';', at)) {
    at = std::min(header.find_first_not_of(" \t", at + 1), header.size());
    const std::size_t equals = header.find('=', at);
    if (equals == header.npos) return {};
    const bool wanted = same_word(header.substr(at, equals - at), name);
    std::size_t begin = equals + 1, end = 0;
    if (begin < header.size() && header[begin] == '"') {
      end = header.find('"', ++begin);
      if (end == header.npos) return {};
      at = end + 1;
    } else {
      end = at = std::min(header.find(';', begin), header.size());
    }
    if (wanted) return std::string(header.substr(begin, end - begin));
  }
  return {};
}

// The name of a part, from its headers, which end with an empty line.
std::string name_of_part(std::string_view headers) {
  while (!headers.empty()) {
    const std::string_view line = headers.substr(0, headers.find("\r\n"));
    headers.remove_prefix(std::min(line.size() + 2, headers.size()));
    const std::size_t colon = std::min(line.find(':'), line.size());
    if (same_word(line.substr(0, colon), "Content-Disposition")) return parameter_of(line, "name");
  }
  return {};
}

float temperature_of(const std::string& text) {
  const Json value = Json::parse(text, nullptr, false);
  if (!value.is_number() || value < 0 || value > 1) throw bad_field("temperature", "temperature must be 0 to 1.");
  return value.get<float>();
}

}  // namespace

std::vector<FormPart> parse_form(const std::string& type, const std::string& body) {
  const std::string boundary = parameter_of(type, "boundary");
  if (boundary.empty() || boundary.size() > 70) bad_form("The Content-Type has no boundary of 1 to 70 characters.");
  const std::string line = "\r\n--" + boundary;
  const std::string_view all = body;
  std::vector<FormPart> parts;
  // The first line of a boundary may begin the body.
  std::size_t at = all.starts_with(std::string_view(line).substr(2)) ? line.size() - 2 : all.find(line);
  if (at == all.npos) bad_form("The body has no part.");
  if (!all.starts_with(std::string_view(line).substr(2))) at += line.size();
  for (;;) {
    if (all.substr(at).starts_with("--")) return parts;
    if (!all.substr(at).starts_with("\r\n")) bad_form("A boundary does not end its line.");
    const std::size_t head = all.find("\r\n\r\n", at), end = all.find(line, at + 2);
    if (head == all.npos || end == all.npos || head + 4 > end + 2) bad_form("A part is not whole.");
    if (parts.size() == kMostParts) bad_form("The form has too many parts.");
    const std::size_t begin = std::min(head + 4, end);
    parts.push_back({name_of_part(all.substr(at + 2, head - at - 2)), all.substr(begin, end - begin)});
    at = end + line.size();
  }
}

TranscriptionRequest parse_transcription(const std::vector<FormPart>& form, bool translate) {
  TranscriptionRequest request;
  request.options.translate = translate;
  for (const FormPart& part : form) {
    const std::string& name = part.name;
    const std::string text(part.content.substr(0, 80));
    if (name == "file") {
      request.file = part.content;
    } else if (name == "language" && !translate) {
      request.options.language = text;
    } else if (name == "prompt") {
      request.options.prompt = part.content;
      if (part.content.size() > kMostPrompt || part.content.find('\0') != part.content.npos ||
          !is_utf8(request.options.prompt))
        throw bad_field(name, "prompt must be UTF-8 of at most 16384 bytes, without a zero.");
    } else if (name == "response_format") {
      request.format = text;
    } else if (name == "temperature") {
      if (const float temperature = temperature_of(text); temperature > 0) request.options.temperatures = {temperature};
    } else if (name == "stream" && !translate) {
      if (text != "true" && text != "false") throw bad_field(name, "stream must be true or false.");
      request.stream = text == "true";
    } else if (name == "timestamp_granularities[]") {
      if (text != "segment" && text != "word")
        throw bad_field(name, "timestamp_granularities[] must be segment or word.");
      (text == "word" ? request.options.words : request.segments) = true;
    } else if (name != "model") {
      throw bad_field(name.substr(0, 80), "This field is not supported.", "unsupported_parameter");
    }
  }
  if (request.file.empty()) throw bad_field("file", "A recording is required.", "missing_required_parameter");
  static constexpr std::string_view kFormats[] = {"json", "verbose_json", "text", "srt", "vtt"};
  if (std::ranges::find(kFormats, request.format) == std::end(kFormats))
    throw bad_field("response_format", "response_format must be json, verbose_json, text, srt or vtt.");
  if (request.options.words && request.format != "verbose_json")
    throw bad_field("response_format", "response_format must be verbose_json for times of words.");
  if (request.stream && request.format != "json" && request.format != "text")
    throw bad_field("response_format", "response_format must be json or text in a stream.");
  return request;
}

Transcriber::Task::Task(Transcriber& transcriber, TranscriptionRequest request)
    : transcriber_(transcriber), request_(std::move(request)), place_(transcriber.line_) {
  try {
    request_.options.samples_per_second = cli::check_recording(request_.file, "file", kLongestRecording).rate;
  } catch (const api::Failure& failure) {
    throw bad_field("file", failure.sentence() + ".", "invalid_value");
  }
}

Transcript Transcriber::Task::hear(const std::function<void(const Transcript::Segment&)>& on_segment,
                                   const std::function<void()>& check) {
  return place_.run(transcriber_.model_, [&] {
    Transcript transcript;
    std::exception_ptr stopped;
    const auto keep = [&](const weft_heard& heard) {
      transcript.segments.push_back({heard.begin, heard.end, heard.mean_logprob, heard.no_speech, heard.text, {}});
      for (std::size_t i = 0; i < heard.word_count; ++i) {
        const weft_heard_word& word = heard.words[i];
        transcript.segments.back().words.push_back({word.begin, word.end, word.text});
      }
      try {
        on_segment(transcript.segments.back());
      } catch (...) {
        stopped = std::current_exception();
      }
      return !stopped;
    };
    try {
      cli::RecordingFile file(request_.file, "file", kLongestRecording);
      transcriber_.listener_.begin(request_.options, keep);
      for (const std::vector<float>* samples = &file.next(); !samples->empty(); samples = &file.next()) {
        check();
        transcriber_.listener_.feed(*samples);
      }
      transcriber_.listener_.finish();
      transcript.duration = file.seconds();
    } catch (const api::Failure& failure) {
      if (stopped) std::rethrow_exception(stopped);
      if (failure.status() == WEFT_INVALID_ARGUMENT) throw bad_field("language", failure.sentence() + ".");
      throw;
    }
    transcript.language = transcriber_.listener_.language();
    return transcript;
  });
}

std::string delta_event(const Transcript::Segment& segment) {
  return "data: " + bytes_of({{"type", "transcript.text.delta"}, {"delta", segment.text}}) + "\n\n";
}

std::string done_event(const Transcript& transcript) {
  std::string text;
  for (const Transcript::Segment& segment : transcript.segments) text += segment.text;
  return "data: " + bytes_of({{"type", "transcript.text.done"}, {"text", cli::one_line(text)}}) + "\n\n";
}

HttpResponse transcript_response(const TranscriptionRequest& request, const Transcript& transcript) {
  std::string text, subtitles = request.format == "vtt" ? "WEBVTT\n\n" : "";
  Json segments = Json::array(), words = Json::array();
  for (const Transcript::Segment& segment : transcript.segments) {
    text += segment.text;
    for (const Transcript::Word& word : segment.words)
      words.push_back({{"word", cli::one_line(word.text)}, {"start", word.begin}, {"end", word.end}});
    if (request.format == "srt")
      subtitles += cli::srt_cue(segments.size() + 1, segment.begin, segment.end, segment.text);
    if (request.format == "vtt") subtitles += cli::vtt_cue(segment.begin, segment.end, segment.text);
    segments.push_back({{"id", segments.size()},
                        {"start", segment.begin},
                        {"end", segment.end},
                        {"text", segment.text},
                        {"avg_logprob", segment.mean_logprob},
                        {"no_speech_prob", segment.no_speech}});
  }
  text = cli::one_line(text);
  constexpr const char* kPlain = "text/plain; charset=utf-8";
  if (request.format == "text") return {200, {}, kPlain, text + "\n", {}};
  if (request.format == "srt") return {200, {}, kPlain, subtitles, {}};
  if (request.format == "vtt") return {200, {}, "text/vtt; charset=utf-8", subtitles, {}};
  Json answer = {{"text", text}};
  if (request.format == "verbose_json")
    answer = {{"task", request.options.translate ? "translate" : "transcribe"},
              {"language", transcript.language},
              {"duration", transcript.duration},
              {"text", text}};
  if (request.format == "verbose_json" && (request.segments || !request.options.words)) answer["segments"] = segments;
  if (request.options.words) answer["words"] = words;
  return {200, {}, "application/json", bytes_of(answer), {}};
}

}  // namespace weft::serve
