// Transcriptions of recordings, with a model that hears.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>
#include <weft/audio.hpp>

#include "http.h"
#include "line.h"

namespace weft::serve {

// A part of a multipart/form-data body (RFC 7578).
struct FormPart {
  std::string name;
  std::string_view content;  // in the body
};
// type: of the body, with its boundary. Throws RequestError for a body that is no such form, or has more than 64 parts.
std::vector<FormPart> parse_form(const std::string& type, const std::string& body);

struct TranscriptionRequest {
  std::string file;
  api::ListenOptions options;
  std::string format = "json";  // response_format: json, verbose_json, text, srt or vtt
  bool segments = false;        // timestamp_granularities[] names them; the options say if it names words
  bool stream = false;
};
// Throws RequestError.
TranscriptionRequest parse_transcription(const std::vector<FormPart>& form, bool translate);

struct Transcript {
  struct Word {
    double begin, end;
    std::string text;
  };
  struct Segment {
    double begin, end, mean_logprob, no_speech;
    std::string text;
    std::vector<Word> words;
  };
  std::string language;
  double duration = 0;  // seconds
  std::vector<Segment> segments;
};
HttpResponse transcript_response(const TranscriptionRequest& request, const Transcript& transcript);
// Events of a stream, in the form of OpenAI's: a segment, and the end.
std::string delta_event(const Transcript::Segment& segment);
std::string done_event(const Transcript& transcript);

// Hears for one request after the other. May be used by any thread.
class Transcriber {
 public:
  // duty: nullptr: none. The model outlives it. Throws api::Failure if it does not hear.
  Transcriber(api::Model& model, std::uint32_t queue, const api::Duty* duty)
      : model_(model), line_(queue), listener_(model) {
    if (duty) listener_.use_duty(*duty);
  }

  // A request in its line.
  class Task {
   public:
    // Throws RequestError for a file that is no recording, and Unavailable. The transcriber outlives it.
    Task(Transcriber& transcriber, TranscriptionRequest request);
    // Waits for its turn. on_segment: called with each stretch of speech; check: often. Each ends the task by what it
    // throws. Throws as Line::Place does.
    Transcript hear(const std::function<void(const Transcript::Segment&)>& on_segment,
                    const std::function<void()>& check);
    const TranscriptionRequest& request() const { return request_; }

   private:
    Transcriber& transcriber_;
    TranscriptionRequest request_;
    Line::Place place_;
  };

  void close() { line_.close(); }
  std::string broken() const { return line_.broken(); }

 private:
  api::Model& model_;
  Line line_;
  api::Listener listener_;
};

}  // namespace weft::serve
