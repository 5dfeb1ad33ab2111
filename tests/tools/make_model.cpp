// weft-make-model: writes a Llama-family model with random weights, for benchmarks and tests.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <map>
#include <optional>

#include "support/model_maker.h"

int main(int argc, char** argv) {
  CLI::App app("Writes a Llama-family model with random weights");
  std::string out, shape_name = "tiny";
  std::optional<uint32_t> width, layers, heads, kv_heads, head_dim, ffn, vocab, context;
  std::optional<uint32_t> medusa, lora;
  bool untied = false, huggingface = false;
  weft::MakeOptions options;
  std::map<std::string, weft::DType> types;
  for (const weft::DType type : weft::kDTypes) types[name(type)] = type;
  app.add_option("out", out, "The GGUF file, or the folder with --hf")->required();
  app.add_option("--shape", shape_name,
                 "tiny, 135m, gemma270m, qwen0.6b, qwen3.5-0.8b, lfm2.5-1.2b, granite-4-h-1b, gemma4-e2b, 1b or 8b; "
                 "with experts "
                 "qwen3-30b-a3b, qwen3.5-35b-a3b, granite-4-h-tiny or gpt-oss-20b")
      ->capture_default_str();
  app.add_option("--width", width, "Hidden state, elements");
  app.add_option("--layers", layers);
  app.add_option("--heads", heads, "Of queries");
  app.add_option("--kv-heads", kv_heads);
  app.add_option("--head-dim", head_dim, "0: width / heads");
  app.add_option("--ffn", ffn, "Feed-forward width");
  app.add_option("--vocab", vocab, "Rows of the vocabulary table");
  app.add_option("--context", context, "Tokens");
  app.add_option("--type", options.type, "Of the matrices")
      ->transform(CLI::CheckedTransformer(types, CLI::ignore_case));
  app.add_option("--second-table", options.second_table, "Type of a second copy of the vocabulary table")
      ->transform(CLI::CheckedTransformer(types, CLI::ignore_case));
  app.add_option("--medusa", medusa, "So many Medusa heads for a model of that width, instead of a model");
  app.add_option("--lora", lora, "A LoRA adapter of this rank for a model of that shape, instead of a model");
  app.add_option("--seed", options.seed);
  app.add_option("--chat-template", options.chat_template, "Jinja");
  app.add_flag("--untied", untied, "An output matrix of its own");
  app.add_flag("--hf", huggingface, "A Hugging Face folder instead of a GGUF file");
  CLI11_PARSE(app, argc, argv);
  try {
    weft::LlamaShape shape = weft::named_shape(shape_name);
    shape.width = width.value_or(shape.width);
    shape.layers = layers.value_or(shape.layers);
    shape.heads = heads.value_or(shape.heads);
    shape.kv_heads = kv_heads.value_or(shape.kv_heads);
    shape.head_dim = head_dim.value_or(shape.head_dim);
    shape.ffn = ffn.value_or(shape.ffn);
    shape.vocab = vocab.value_or(shape.vocab);
    shape.context = context.value_or(shape.context);
    if (untied) shape.tied = false;
    if (lora)
      weft::make_adapter(out, shape, *lora, options.seed);
    else if (medusa)
      weft::make_medusa(out, shape.width, *medusa, options);
    else
      (huggingface ? weft::make_huggingface : weft::make_gguf)(out, shape, options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "weft-make-model: %s\n", error.what());
    return 1;
  }
}
