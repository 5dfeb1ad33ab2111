// Packs and uploads the weights of one network: a model's, or those of either half of an encoder-decoder. Not for other
// modules.
#pragma once

#include "gpu/upload.h"
#include "model/tied_tables.h"
#include "model/weights_report.h"

namespace weft {

class WeightsLoader {
 public:
  // report: an encoder-decoder's halves share it. prefix: of the buffers' names.
  WeightsLoader(std::shared_ptr<Device> device, std::shared_ptr<const ModelFile> file, const Config& config,
                const DeviceFormats& formats, std::shared_ptr<WeightsReport> report, std::string prefix);
  WeightsLoader(const WeightsLoader&) = delete;  // the parts refer to the config
  WeightsLoader& operator=(const WeightsLoader&) = delete;

  // Checks the whole file, with the tensors of the other half, and plans the memory. Returns whether the layers may be
  // loaded later. Comes first.
  bool check(WeightsLoader* encoder);
  void load_vocabulary();
  // Everything from the embedding to the final norm. later: allocates the layers but does not upload them; the caller
  // calls load_layer() for each, in order.
  void load_body(bool later);
  void load_ends();  // the heads and the logit bias
  // Loads a whole image encoder, without check() and load_vocabulary().
  void load_image(ImageEnds& ends);
  Weights take() { return std::move(weights_); }
  void load_layer(uint32_t index);

  const Config& config() const { return config_; }

 private:
  std::shared_ptr<const Basis> basis(const TensorView& table) const;
  void check_split(bool has_encoder) const;
  void choose_vocabulary();
  void report_left_out();
  std::unique_ptr<Table> load_table(const TensorView& tensor, const std::string& buffer, bool projected);
  std::unique_ptr<Table> load_part(const std::shared_ptr<Device>& device, const TensorView& part, Format format,
                                   std::shared_ptr<const Basis> basis, const std::string& buffer, Rounding& rounding,
                                   Memory memory = Memory::device);
  std::unique_ptr<Table> load_rows(const TensorView& tensor, Format format, std::shared_ptr<const Basis> basis,
                                   const std::string& buffer, Memory memory = Memory::device);
  void load_norm(Buffer& buffer, const std::vector<Floats>& parts, const char* name, float scale);
  void load_attention_norms();
  void load_head();
  void load_layer_inputs();
  void load_layer_input_table(std::unique_ptr<Table>& table);
  void load_positions();
  void load_score_biases();
  std::vector<Rounding*> allocate(Buffer& buffer, const std::string& name, int index, const Pieces& pieces);
  static void set_buffer(const Pieces& pieces, const Buffer& buffer);
  void upload(int index, const Pieces& pieces, std::span<Rounding* const> roundings);
  void upload_one(const Matrix& matrix, const std::vector<const TensorView*>& sources,
                  std::span<Rounding* const> to_note);
  void upload_floats(Buffer& buffer, const char* name, std::span<const float> values);
  std::vector<float> floats_of(const std::vector<Floats>& parts, float scale) const;
  void begin_stream();

  struct Due {  // a layer that is allocated; it stays where it is, though weights_ is moved away
    Layer* layer;
    std::vector<Rounding*> roundings;
  };
  std::shared_ptr<Device> device_;
  std::shared_ptr<const ModelFile> file_;
  Config config_;
  DeviceFormats wanted_;
  std::shared_ptr<WeightsReport> report_;
  std::string prefix_;
  Uploader uploader_;
  Parts parts_;
  VocabularyTables vocabulary_;
  Weights weights_;
  uint64_t layer_buffer_bytes_ = 0;  // of the largest layer, if layers are streamed
  std::vector<Due> due_;             // by layer
};

}  // namespace weft
