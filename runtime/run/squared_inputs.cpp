#include "run/squared_inputs.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "model/parts.h"
#include "model/product_inputs.h"
#include "run/run_text.h"

namespace weft {
namespace {

// A product of the model and the tensors that it multiplies with.
struct Product {
  const Linear* linear;
  std::vector<std::string> tensors;
  std::vector<double> sums;
};

// Names in a GGUF file of the tensors that a part of a matrix becomes. Folders of Mamba-2's families have a gate and
// what it gates as one, GGUF files apart (convert/huggingface.cpp, add_halves); other families keep one matrix.
std::vector<std::string> tensors_of(const Config& config, const Part& part, uint32_t layer) {
  const auto name = [&](std::string_view role) {
    return tensor_name(ModelFile::Kind::gguf, *config.traits, role, static_cast<int>(layer));
  };
  constexpr std::string_view kUp = "ffn_up";
  const std::string_view role = part.role;
  std::vector<std::string> names = {name(role)};
  if (config.traits->mamba2 && role.starts_with(kUp) && part.rows == 2 * uint64_t{config.ffn_of(layer)})
    names.push_back(name("ffn_gate" + std::string(role.substr(kUp.size()))));
  return names;
}

std::vector<Product> products_of(const Model& model, const ModelFile& file) {
  Config config = model.config;
  Parts parts(file, config);
  std::vector<Product> products;
  for (uint32_t index = 0; index < config.layers; ++index) {
    Layer layer(config, index);  // the same products as the model's, without numbers
    const std::vector<const Linear*> linears = layer.linears(), own = model.weights.layers[index].linears();
    for (const MatrixSource& matrix : parts.layer(layer, static_cast<int>(index)).matrices) {
      const auto at =
          std::ranges::find_if(linears, [&](const Linear* linear) { return &linear->base == &matrix.matrix; });
      if (at == linears.end()) continue;  // of experts
      Product product = {own[static_cast<size_t>(at - linears.begin())], {}, std::vector<double>(matrix.cols)};
      for (const Part& part : matrix.parts)
        for (const std::string& name : tensors_of(config, part, index))
          if (std::ranges::find(product.tensors, name) == product.tensors.end()) product.tensors.push_back(name);
      products.push_back(std::move(product));
    }
    parts.forget();
  }
  return products;
}

void check(const Model& model, const ModelFile& file) {
  const Config& config = model.config;
  const auto refuse = [&](const std::string& sentence, const char* hint) {
    throw Error(Code::unsupported, sentence, "model", hint);
  };
  if (config.encoder || config.layer_kind.sees_all || model.weights.encoder)
    refuse("the family '" + config.family + "' is no decoder", "importance matrices are measured of decoders");
  if (config.traits->gated_delta && file.kind == ModelFile::Kind::huggingface)
    refuse("columns of a Gated DeltaNet have another order in a folder than in a GGUF file",
           "weft convert writes a GGUF file, which can be measured");
  model.weights.need_all_rows("importance matrices");
}

// Adds the squares of the products' inputs over a part of a text. progress is called with how many of its tokens are
// done.
void measure(const Model& model, std::span<const uint32_t> ids, std::vector<Product>& products,
             const std::function<void(size_t)>& progress) {
  ProductInputs inputs(model);
  const auto add = [&](size_t first, size_t count, const Pass&) {
    for (Product& product : products)
      if (inputs.has(*product.linear)) inputs.add(*product.linear, count, product.sums);
    progress(first + count);
  };
  run_text(model, ids, {.prepare = [&](Pass& pass) { pass.inputs = &inputs; }, .after = add});
}

}  // namespace

std::vector<SquaredInputs> squared_inputs(const Model& model, const ModelFile& file,
                                          std::span<const std::span<const uint32_t>> parts,
                                          const std::function<void(float)>& progress) {
  check(model, file);
  model.weights.wait();
  std::vector<Product> products = products_of(model, file);
  uint64_t tokens = 0, total = 0;
  for (const auto& part : parts) total += part.size();
  for (const auto& part : parts) {
    if (part.empty()) continue;
    measure(model, part, products,
            [&](size_t done) { progress(static_cast<float>(tokens + done) / static_cast<float>(total)); });
    tokens += part.size();
  }
  progress(1);
  std::vector<SquaredInputs> result;
  for (const Product& product : products)
    for (const std::string& tensor : product.tensors) {
      // Queries and their gates are rows of one tensor.
      if (std::ranges::find(result, tensor, &SquaredInputs::tensor) != result.end()) continue;
      const bool finite = std::ranges::all_of(product.sums, [](double sum) { return std::isfinite(sum); });
      if (!finite) throw Error(Code::unsupported, "an input of its product is not finite", "tensor " + tensor);
      result.push_back({tensor, product.sums, tokens});
    }
  return result;
}

}  // namespace weft
