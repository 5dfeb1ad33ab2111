// Heads with weights of their own between a model's last state and its logits. Most models have none: their logits are
// the products of the state with the rows of the vocabulary table.
//
// A new head is a file here with a class derived from OutputHead, and its reader's name in output_head.cpp. The
// class says how it is read from a file, which tensors and scratch it has, how it is recorded, and what it cannot do.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json_object.h"
#include "gpu/plan.h"
#include "ops/ops.h"

namespace weft {

// The model that a head belongs to.
struct HeadModel {
  uint32_t width;      // of a hidden state
  bool scales_logits;  // it scales or caps its logits
  bool has_encoder;
};

// A matrix of the head, and the tensor that it is made of.
struct HeadMatrix {
  const char* role;  // of the tensor (model/family_names.h); in a GGUF file ROLE.weight, and ROLE.bias
  uint64_t rows, cols;
  bool biased = false;
  std::optional<Format> format = {};  // none: as the layers' matrices
};

// Numbers that the head's kernels read, and that are in no file.
struct HeadConstants {
  const char* name = "";           // of their buffer
  std::vector<uint32_t> words;     // may be empty
  std::vector<std::string> users;  // operations that read them
};

// Place of a head's matrices and constants on the device.
struct HeadWeights {
  Buffer buffer;
  std::vector<Matrix> matrices;  // as OutputHead::matrices() lists them
  Buffer constants;              // without bytes if the head has none
  uint64_t bytes() const { return buffer.bytes() + constants.bytes(); }
};

// One row of a pass while it is recorded.
struct HeadRow {
  Recorder& recorder;
  const HeadWeights& weights;
  const Matrix& table;
  uint32_t vocab;  // rows of the vocabulary
  View scratch;    // OutputHead::scratch_bytes(vocab), which all rows of the pass share; zero at the beginning
  View state;      // abi::StepState of the pass
  View h;          // (width) the state after the final norm
  View logits;     // (vocab) the result
};

// Buffers that decide which token is chosen from a row's logits.
struct HeadChoice {
  View state;        // abi::StepState of the session
  View params;       // abi::SampleParams
  View token_flags;  // abi.h, TOKEN_FLAGS
  View scores;       // (vocab) scratch
};

class OutputHead {
 public:
  virtual ~OutputHead() = default;

  virtual std::string kind() const = 0;  // its name in the registry and in files
  virtual std::string text() const = 0;  // for users: "3 softmaxes (mixture)"
  // True if logits are ln p of each token.
  virtual bool gives_log_probabilities() const { return false; }
  // Throws Error(bad_file) if the head does not fit a vocabulary of so many rows. file: the error's place.
  virtual void check(uint32_t /*vocab*/, const std::string& /*file*/) const {}
  // Throws Error(unsupported) if the device cannot run it.
  virtual void check_device(const Plan& /*plan*/, uint32_t /*vocab*/, const std::string& /*file*/) const {}
  virtual const char* buffer_name() const { return "head"; }  // of HeadWeights::buffer
  virtual std::vector<HeadMatrix> matrices() const = 0;
  virtual HeadConstants constants(uint32_t /*vocab*/) const { return {}; }
  virtual uint64_t scratch_bytes(uint32_t vocab) const = 0;

  // Records the logits of all rows of the vocabulary.
  virtual void record(const HeadRow& row) const = 0;
  // The same, where only a choice reads the logits: rows that cannot be chosen may be -infinity.
  virtual void record_choice(const HeadRow& row, const HeadChoice& /*choice*/) const { record(row); }
  // Rows that record() reads, if record_choice() can read fewer; it then leaves their number in exact_count of the
  // session's abi::HeadState. 0: both read all rows.
  virtual uint32_t rows_read(uint32_t /*vocab*/) const { return 0; }

  // Pruned heads, drafts, the lens, ratings and tables on several devices know only the table. Why a model with this
  // head is refused there, and what its user can do.
  virtual std::string refusal() const = 0;
  virtual std::string hint() const = 0;
};

// The head that a file's keys describe (docs/formats.md); nullptr: the model has none. prefix: of the keys. Throws
// Error(bad_file) and Error(unsupported) naming the key.
std::shared_ptr<const OutputHead> read_output_head(const JsonObject& values, const std::string& prefix,
                                                   const HeadModel& model);

}  // namespace weft
