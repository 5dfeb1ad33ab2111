#include "chat/notations.h"

#include <algorithm>
#include <array>
#include <iterator>

namespace weft {
namespace {

constexpr std::string_view kFences = "```json ```";

constexpr CallSection kSections[] = {
    // Hermes, Qwen, Qwen3-Coder, SmolLM3, Granite 4, GLM
    {.open = "<tool_call>", .close = "</tool_call>", .forms = {.named = true}, .between = kFences},
    {.open = "<function=", .close = "</tool_call>", .includes_open = true, .between = "</function>"},  // Llama 3.1
    {.open = "<|python_tag|>", .close = "<|eom_id|>", .forms = {.named = true}},                       // Llama 3
    {.open = "[TOOL_CALLS]", .close = "", .forms = {.named = true}},                                   // Mistral
    {.open = "<|tool_call>", .close = "<tool_call|>", .forms = {.named = true}},                       // Gemma 4
    {.open = "<start_function_call>", .close = "<end_function_call>", .forms = {.named = true}},       // Gemma 3
    {.open = "<|tool_call_start|>", .close = "<|tool_call_end|>", .forms = {.named = true}},           // LFM2
    {.open = "<|tool_call|>", .close = "<|/tool_call|>", .between = kFences},                      // Granite 3, Phi-4
    {.open = "<seed:tool_call>", .close = "</seed:tool_call>", .forms = {.inline_values = true}},  // Seed-OSS
    {.open = "<minimax:tool_call>", .close = "</minimax:tool_call>"},                              // MiniMax M2
    {.open = "<｜DSML｜function_calls>", .close = "</｜DSML｜function_calls>"},                    // DeepSeek V3.2
    {.open = "<｜DSML｜tool_calls>", .close = "</｜DSML｜tool_calls>"},                            // DeepSeek V4
    {.open = "<function name=", .close = "", .includes_open = true},                               // MiniCPM 5
    {.open = "<|tool_calls_section_begin|>",
     .close = "<|tool_calls_section_end|>",
     .between = "<|tool_call_end|>"},                                                      // Kimi K2
    {.open = "<|tools_prefix|>", .close = "<|tools_suffix|>", .forms = {.keyed = true}},   // Apertus
    {.open = "<|tool_calls|>", .close = "<|calls|>", .between = "<|tool_call:end|>"},      // Solar
    {.open = "<|action_start|><|plugin|>", .close = "<|action_end|>"},                     // InternLM 2
    {.open = "<function_call>", .close = "</function_call>"},                              // Granite 3.0
    {.open = "<function_calls>", .close = "</function_calls>", .forms = {.named = true}},  // OLMo 3
    {.open = "<TOOLCALL>", .close = "</TOOLCALL>"},                                        // Nemotron
    {.open = "<tool_calls>", .close = "</tool_calls>"},                                    // Apriel
    {.open = "<|function_call|>", .close = "<|message_sep|>"},                             // GigaChat
    {.open = "functools[", .close = "]"},                                                  // Phi-4-mini
    {.open = "<｜tool▁calls▁begin｜>",
     .close = "<｜tool▁calls▁end｜>",
     .between = "``` <｜tool▁call▁end｜>"},  // DeepSeek
    {.open = "<｜tool▁call▁begin｜>",
     .close = "<｜tool▁calls▁end｜>",
     .includes_open = true,
     .between = "``` <｜tool▁call▁end｜>"},
    {.open = "<|START_ACTION|>", .close = "<|END_ACTION|>"},                // Command-R
    {.open = ">>>", .close = "", .forms = {.named = true}, .sign = ">>>"},  // functionary 3.2
    {.open = "<|recipient|>",
     .close = "<|stop|>",
     .forms = {.named = true},
     .between = "<|content|>"},                            // functionary 2
    {.open = "```", .close = "```", .begins_line = true},  // fenced JSON; a word may follow the opening mark
    {.open = "```tool_code", .close = "```", .begins_line = true, .forms = {.named = true}},  // Gemma 3
    {.open = "{", .close = "", .includes_open = true, .begins_line = true},
    {.open = "[", .close = "]", .begins_line = true, .forms = {.named = true}},  // Llama 4, LFM2 without its marks
};

constexpr TagNotation kTags[] = {
    {"<function=", "<parameter=", "", "</parameter>", "</function>", "\n", "\n"},            // Qwen3-Coder
    {"<invoke name=\"", "<parameter name=\"", "\"", "</parameter>", "</invoke>", "\n", ""},  // MiniMax M2
    {"<｜DSML｜invoke name=\"", "<｜DSML｜parameter name=\"", "\"", "</｜DSML｜parameter>", "</｜DSML｜invoke>", "\n",
     "", true},                                                                        // DeepSeek V3.2 and V4
    {"<function name=\"", "<param name=\"", "\"", "</param>", "</function>", "", ""},  // MiniCPM 5
};

constexpr ReasoningMarks kReasoning[] = {
    {"<think>", "</think>"},                     // DeepSeek, Qwen 3, SmolLM3, Granite 3.3
    {"[THINK]", "[/THINK]"},                     // Mistral
    {"<|START_THINKING|>", "<|END_THINKING|>"},  // Command-R
    {"<|channel>thought\n", "<channel|>"},       // Gemma 4
    {"<seed:think>", "</seed:think>"},
    {"<thought>", "</thought>"},                              // EXAONE Deep
    {"<|inner_prefix|>", "<|inner_suffix|>"},                 // Apertus
    {"Here is my thought process:", "Here is my response:"},  // Granite 3.2
};

// OpenAI's harmony.
constexpr std::string_view kAssistant = "<|start|>assistant";
constexpr ReasoningMarks kAnalysis = {"<|channel|>analysis<|message|>", "<|end|>",
                                      "<|start|>assistant<|channel|>final<|message|>"};

constexpr Wrapper kWrappers[] = {{"<|START_RESPONSE|>", "<|START_RESPONSE|>"},
                                 {"<|END_RESPONSE|>", "<|END_RESPONSE|>"},
                                 {"<response>", "<response>"},
                                 {"</response>", "<response>"},
                                 {"<answer>", "hy_Assistant"},  // Hunyuan
                                 {"</answer>", "hy_Assistant"},
                                 {">>>all\n", ">>>"}};
constexpr std::string_view kChannelMarks[] = {"<|start|>", "<|channel|>", "<|constrain|>", "<|message|>",
                                              "<|end|>",   "<|return|>",  "<|call|>"};
constexpr std::string_view kOtherMarks[] = {"[ARGS]",
                                            "[CALL_ID]",
                                            "<｜tool▁sep｜>",
                                            "<｜tool▁call▁end｜>",
                                            "<|\"|>",
                                            "<escape>",
                                            "<arg_key>",
                                            "</arg_key>",
                                            "<arg_value>",
                                            "</arg_value>",
                                            "<|content|>",
                                            "<|channel>",
                                            "<|tool_call_begin|>",
                                            "<|tool_call_argument_begin|>",
                                            "｜DSML｜",
                                            "<|action_start|>",
                                            "<|plugin|>",
                                            "<|tool_call:begin|>",
                                            "<|tool_call:name|>",
                                            "<|tool_call:args|>"};

}  // namespace

std::span<const CallSection> call_sections() { return kSections; }

std::span<const TagNotation> tag_notations() { return kTags; }

const TagNotation* tag_notation(std::string_view chat_template) {
  // Templates write DeepSeek's mark as a variable.
  const auto* const found = std::ranges::find_if(kTags, [&](const TagNotation& tags) {
    return chat_template.find(tags.typed ? "｜DSML｜" : tags.parameter) != std::string_view::npos;
  });
  return found == std::end(kTags) ? nullptr : found;
}

const ReasoningMarks* reasoning_marks(std::string_view chat_template) {
  // Templates that only cut the reasoning off earlier answers have the closing mark alone, and those that only begin it
  // (OLMo 3) the opening one.
  for (const auto mark : {&ReasoningMarks::close, &ReasoningMarks::open}) {
    const auto* const found = std::ranges::find_if(kReasoning, [&](const ReasoningMarks& marks) {
      return chat_template.find(marks.*mark) != std::string_view::npos;
    });
    if (found != std::end(kReasoning)) return found;
  }
  return has_channels(chat_template) ? &kAnalysis : nullptr;
}

std::span<const Wrapper> wrappers() { return kWrappers; }

bool has_channels(std::string_view chat_template) {
  return chat_template.find("<|channel|>") != std::string_view::npos &&
         chat_template.find("<|message|>") != std::string_view::npos;
}

std::string opening(const ReasoningMarks& marks) {
  return std::string(marks.open) + (marks.open.ends_with('\n') || !marks.answer.empty() ? "" : "\n");
}

std::string closing(const ReasoningMarks& marks) {
  if (!marks.answer.empty()) return std::string(marks.close) + std::string(marks.answer);
  return "\n" + std::string(marks.close) + "\n\n";
}

std::string_view header(const ReasoningMarks& marks) {
  return marks.answer.starts_with(kAssistant) ? marks.answer.substr(kAssistant.size()) : marks.answer;
}

std::string begun_part(std::string_view prompt_end, std::string_view chat_template) {
  constexpr std::string_view kRecipient = ">>>";
  const std::string_view end = prompt_end.substr(0, prompt_end.find_last_not_of(" \t\r\n") + 1);
  if (has_channels(chat_template) && end.ends_with(kAssistant)) return std::string(kAssistant);
  if (end.ends_with(kRecipient)) return std::string(kRecipient);
  const ReasoningMarks* const reasoning = reasoning_marks(chat_template);
  if (!reasoning) return {};
  const std::string_view open = reasoning->open.substr(0, reasoning->open.find_last_not_of('\n') + 1);
  return end.ends_with(open) ? std::string(reasoning->open) : std::string();
}

std::vector<std::string> marks() {
  std::vector<std::string> all;
  for (const CallSection& section : kSections) {
    all.emplace_back(section.open);
    all.emplace_back(section.close);
  }
  for (const ReasoningMarks& reasoning : kReasoning) {
    all.emplace_back(reasoning.open);
    all.emplace_back(reasoning.close);
  }
  for (const Wrapper& wrapper : kWrappers) all.emplace_back(wrapper.text);
  for (const std::string_view mark : kChannelMarks) all.emplace_back(mark);
  for (const std::string_view mark : kOtherMarks) all.emplace_back(mark);
  std::erase(all, "");
  return all;
}

}  // namespace weft
