// A conversation so far, and the token ids after which the model answers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>
#include <weft/image.hpp>

namespace weft::cli {

// A conversation through the model's chat template; or, where it has none, one growing text that the model continues.
// Both are turned into ids anew for every turn: the session keeps what has not changed.
class Conversation {
 public:
  // context: tokens the session can hold. system: may be empty; ignored without a template.
  Conversation(const api::Model& model, std::uint32_t context, std::string system);

  // The context for the next answer to `line`, with a quarter of the session left free for it. Older turns that do not
  // fit are dropped for good, and *dropped is set. Throws Failure(WEFT_CONTEXT_FULL), and forgets the line, when it
  // does not even fit alone.
  // images: of the line. Each image of the conversation is one "<image>" of the ids; with a template only.
  std::vector<std::uint32_t> ask(const std::string& line, bool* dropped, const std::vector<api::Image>& images = {});
  std::vector<api::Image> images() const;  // of all that has been said, in order

  // The answer to the last ask with its reasoning, or what continues them. ended: the model closed its text.
  void answered(const std::string& answer, const std::string& reasoning, bool ended);
  void continued(const std::string& more, const std::string& reasoning, bool ended);

  // Has the model reason before its answers, or not; absent: as its template has it.
  void set_thinking(std::optional<bool> on) { thinking_ = on; }

  // The context for more of the last answer, whose ids are given: the turns before it are dropped as in ask, to make
  // room. Throws Failure(WEFT_CONTEXT_FULL) if the last turn alone does not fit.
  std::vector<std::uint32_t> ids_to_continue(const std::vector<std::uint32_t>& answer, bool* dropped);

  struct Question {
    std::string text;
    std::vector<api::Image> images;
  };
  // Takes the last question and its answer back. Without a template, only the last one can be. Nothing if there is
  // none.
  std::optional<Question> undo();

  // Goes on with the conversation of another model, without its pictures.
  void adopt(const Conversation& other);

  void reset();
  // All of it, as a note for a saved session, and back from one. Throws Failure(WEFT_UNSUPPORTED) if there are images,
  // Failure(WEFT_BAD_FILE) for another text.
  std::string note() const;
  void read_note(const std::string& note);
  bool templated() const { return missing_template_.empty(); }
  // The beginning of a sentence that says why there is no template; empty if there is one.
  const std::string& missing_template() const { return missing_template_; }

 private:
  struct Turn : api::Message {
    std::vector<api::Image> images = {};
    std::string reasoning = {};  // templates keep it, or drop it
  };
  std::vector<std::uint32_t> ask_template(const std::string& line, bool* dropped,
                                          const std::vector<api::Image>& images);
  std::vector<std::uint32_t> template_ids() const;
  std::size_t image_tokens() const;  // that stand for the "<image>" of the ids, beyond those
  // The ids of all messages, after the oldest turns were dropped until they and `more` tokens fit.
  std::vector<std::uint32_t> fitting_ids(std::size_t more, bool* dropped);
  std::vector<std::uint32_t> fitting_text(bool* dropped);
  std::vector<std::uint32_t> ask_text(const std::string& line, bool* dropped);
  void drop_oldest_turn();

  const api::Model& model_;
  std::size_t room_;  // tokens a prompt may take
  std::string missing_template_;
  std::string system_;
  std::optional<bool> thinking_;
  std::vector<Turn> messages_;  // with a template
  std::string text_;            // without
  struct Step {
    std::string before, line;
  };
  std::optional<Step> last_;  // without: the text before the last question, and the question
};

}  // namespace weft::cli
