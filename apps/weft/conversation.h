// What has been said so far, and the token ids that make the model say what comes next.
#pragma once

#include <cstdint>
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

  // What came of the last ask, however it ended. ended: the model closed its text.
  void answered(const std::string& answer, bool ended);

  void reset();
  // All of it, as a note for a saved session, and back from one. Throws Failure(WEFT_UNSUPPORTED) if there are images,
  // Failure(WEFT_BAD_FILE) for another text.
  std::string note() const;
  void read_note(const std::string& note);
  bool templated() const { return templated_; }

 private:
  struct Turn : api::Message {
    std::vector<api::Image> images = {};
  };
  std::vector<std::uint32_t> ask_template(const std::string& line, bool* dropped,
                                          const std::vector<api::Image>& images);
  std::vector<std::uint32_t> template_ids() const;
  std::size_t image_tokens() const;  // that stand for the "<image>" of the ids, beyond those
  std::vector<std::uint32_t> ask_text(const std::string& line, bool* dropped);
  void drop_oldest_turn();

  const api::Model& model_;
  std::size_t room_;  // tokens a prompt may take
  bool templated_;
  std::string system_;
  std::vector<Turn> messages_;  // with a template
  std::string text_;            // without
};

}  // namespace weft::cli
