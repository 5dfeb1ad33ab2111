// Small models by name: where they are, and their licences, from their cards at Hugging Face (2026).
#include <algorithm>

#include "models.h"

namespace weft::cli {
namespace {

constexpr const char *kApache = "Apache-2.0", *kMit = "MIT", *kGemma = "Gemma Terms of Use",
                     *kLlama = "Llama 3.2 Community License", *kLfm = "LFM Open License v1.0";

constexpr KnownModel kModels[] = {
    {"smollm2", "", "135 M", kApache},
    {"gemma3-270m", "", "270 M", kGemma},
    {"smollm2-135m", "hf.co/bartowski/SmolLM2-135M-Instruct-GGUF:Q8_0", "135 M", kApache},
    {"smollm2-360m", "hf.co/HuggingFaceTB/SmolLM2-360M-Instruct-GGUF:Q8_0", "360 M", kApache},
    {"smollm2-1.7b", "hf.co/HuggingFaceTB/SmolLM2-1.7B-Instruct-GGUF:Q4_K_M", "1.7 B", kApache},
    {"smollm3-3b", "hf.co/ggml-org/SmolLM3-3B-GGUF:Q4_K_M", "3 B", kApache},
    {"qwen2.5-0.5b", "hf.co/Qwen/Qwen2.5-0.5B-Instruct-GGUF:Q4_K_M", "0.5 B", kApache},
    {"qwen2.5-1.5b", "hf.co/Qwen/Qwen2.5-1.5B-Instruct-GGUF:Q4_K_M", "1.5 B", kApache},
    {"qwen3-0.6b", "hf.co/Qwen/Qwen3-0.6B-GGUF:Q8_0", "0.6 B", kApache},
    {"qwen3-1.7b", "hf.co/Qwen/Qwen3-1.7B-GGUF:Q8_0", "1.7 B", kApache},
    {"qwen3-4b", "hf.co/Qwen/Qwen3-4B-GGUF:Q4_K_M", "4 B", kApache},
    {"qwen3.5-0.8b", "hf.co/unsloth/Qwen3.5-0.8B-GGUF:Q4_K_M", "0.8 B", kApache},
    {"gemma3-1b", "hf.co/ggml-org/gemma-3-1b-it-GGUF:Q4_K_M", "1 B", kGemma},
    {"gemma3-4b", "hf.co/ggml-org/gemma-3-4b-it-GGUF:Q4_K_M", "4 B", kGemma},
    {"gemma4-e2b", "hf.co/unsloth/gemma-4-E2B-it-GGUF:Q4_K_M", "5 B", kApache},
    {"llama3.2-1b", "hf.co/bartowski/Llama-3.2-1B-Instruct-GGUF:Q4_K_M", "1.2 B", kLlama},
    {"llama3.2-3b", "hf.co/bartowski/Llama-3.2-3B-Instruct-GGUF:Q4_K_M", "3.2 B", kLlama},
    {"lfm2-350m", "hf.co/LiquidAI/LFM2-350M-GGUF:Q4_K_M", "350 M", kLfm},
    {"lfm2-700m", "hf.co/LiquidAI/LFM2-700M-GGUF:Q4_K_M", "700 M", kLfm},
    {"lfm2.5-1.2b", "hf.co/LiquidAI/LFM2.5-1.2B-Instruct-GGUF:Q4_K_M", "1.2 B", kLfm},
    {"granite4-350m", "hf.co/ibm-granite/granite-4.0-350m-GGUF:Q8_0", "350 M", kApache},
    {"granite4-h-350m", "hf.co/ibm-granite/granite-4.0-h-350m-GGUF:Q8_0", "350 M", kApache},
    {"granite4-h-1b", "hf.co/ibm-granite/granite-4.0-h-1b-GGUF:Q4_K_M", "1.5 B", kApache},
    {"gpt-oss-20b", "hf.co/ggml-org/gpt-oss-20b-GGUF:MXFP4", "21 B", kApache},
    {"smolvlm-256m", "hf.co/HuggingFaceTB/SmolVLM-256M-Instruct", "256 M", kApache},
    {"all-minilm-l6-v2", "hf.co/sentence-transformers/all-MiniLM-L6-v2", "23 M", kApache},
    {"bge-small-en", "hf.co/BAAI/bge-small-en-v1.5", "33 M", kMit},
    {"bert-base-uncased", "hf.co/google-bert/bert-base-uncased", "110 M", kApache},
    {"qwen3-reranker-0.6b", "hf.co/Qwen/Qwen3-Reranker-0.6B", "0.6 B", kApache},
    {"whisper-base", "hf.co/openai/whisper-base", "74 M", kApache},
    {"flan-t5-small", "hf.co/google/flan-t5-small", "77 M", kApache},
    {"gpt2", "hf.co/openai-community/gpt2", "124 M", kMit},
};

}  // namespace

std::span<const KnownModel> known_models() { return kModels; }

const KnownModel* known_model(const std::string& name) {
  const auto found = std::ranges::find_if(kModels, [&](const KnownModel& model) { return model.name == name; });
  return found == std::end(kModels) ? nullptr : &*found;
}

}  // namespace weft::cli
