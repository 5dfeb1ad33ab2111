#include "run/shard_passes.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "base/error.h"
#include "run/record_pass.h"
#include "vocab/heads/pruned.h"

namespace weft {

// A device's part of a pass.
class ShardPasses::OnShard {
 public:
  OnShard(const TableShard& shard, const Config& config, uint32_t tokens)
      : shard_(shard),
        stride_(stride_of(config.width)),
        rows_(shard.device, "shard rows", uint64_t{tokens} * stride_ * 4, Memory::readback),
        logits_(shard.device, "shard logits", uint64_t{shard.rows()} * 4, Memory::readback),
        step_(shard.device, "shard step", tokens),
        history_(shard.device, "shard ids", uint64_t{tokens} * 4, Memory::shared),
        state_(shard.device, "shard state", uint64_t{stride_} * 4, Memory::shared),
        pool_(shard.device),
        fence_(shard.device) {
    std::memset(rows_.data(), 0, rows_.bytes());  // what lies after a row's columns stays zero
    const auto gather = [&](Recorder& r, uint32_t count) {
      ops::gather(r, shard.embedding->matrix(), step_, history_, rows_, count, config.embedding_scale);
    };
    const auto project = [&](Recorder& r) { ops::project(r, shard.output().matrix(), state_, logits_, 1); };
    Recorder dry_run(*shard.device);  // asks for every kernel before a recording waits for one
    gather(dry_run, 1), project(dry_run);
    gather_one_ = record_commands(pool_, "shard gather", [&](Recorder& r) { gather(r, 1); });
    gather_all_ = record_commands(pool_, "shard gather", [&](Recorder& r) { gather(r, tokens); });
    project_ = record_commands(pool_, "shard project", project);
  }

  const TableShard& shard() const { return shard_; }
  bool has(uint32_t id) const { return id >= shard_.first_row && id - shard_.first_row < shard_.rows(); }

  void begin_gather(std::span<const uint32_t> ids) {
    wait();
    for (size_t i = 0; i < ids.size(); ++i)
      history_.as<uint32_t>()[i] = has(ids[i]) ? ids[i] - shard_.first_row : UINT32_MAX;  // no row of this table
    step_.begin(0, ids.size());
    submit(ids.size() == 1 ? gather_one_ : gather_all_);
  }
  const float* row(size_t token) const { return rows_.as<float>() + token * stride_; }

  void begin_projection(const Buffer& state, const StepBuffers* partial) {
    wait();
    std::memcpy(state_.data(), state.data(), state_.bytes());
    if (!partial) return submit(project_);
    if (!listing_) listing_ = std::make_unique<Listing>(shard_, pool_, step_, state_, logits_);
    listing_->copy(*partial, shard_.first_row);
    submit(listing_->commands);
  }
  const Buffer& logits() const { return logits_; }

  void wait() {
    naming_device([&] { fence_.wait(); });
  }

 private:
  // The buffers and commands of a partial head.
  struct Listing {
    Listing(const TableShard& shard, CommandPool& pool, const StepState& step, const Buffer& state,
            const Buffer& logits)
        : rows(shard.rows()),
          buffers(shard.device, shard.output(), true),
          params(shard.device, "shard sampling", sizeof(abi::SampleParams), Memory::shared),
          listed(shard.device, "shard listed logits", uint64_t{rows} * 4, Memory::device) {
      step.head() = {};
      step.head().positions = rows;
      commands = record_commands(pool, "shard project", [&](Recorder& r) {
        project_partly(r, shard.output(), {.estimates = true}, buffers, {state, step, params, buffers.token_flags},
                       listed);
        ops::scatter_rows(r, step, buffers.lists, listed, logits, rows);
      });
    }
    // Copies the parameters, and the flags of the shard's rows.
    void copy(const StepBuffers& session, uint32_t first_row) {
      std::memcpy(params.data(), session.params.data(), params.bytes());
      const uint32_t* const from = session.token_flags.as<uint32_t>();
      uint32_t* const to = buffers.token_flags.as<uint32_t>();
      const auto part = [&](uint32_t to_word, uint32_t from_word, uint32_t words) {
        std::memcpy(to + to_word, from + from_word, uint64_t{words} * 4);
      };
      // Only what the parameters make the head read (shaders/lib/score.glsl): mapped memory may be slow to read.
      abi::SampleParams sampling;
      std::memcpy(&sampling, session.params.data(), sizeof sampling);
      if (sampling.repeat_penalty != 1) part(0, first_row / 32, TOKEN_FLAG_COUNTS(rows));
      if (sampling.presence_penalty != 0 || sampling.frequency_penalty != 0)
        part(TOKEN_FLAG_COUNTS(rows), TOKEN_FLAG_COUNTS(session.rows) + first_row, rows);
      if (sampling.biased) part(TOKEN_FLAG_BIASES(rows), TOKEN_FLAG_BIASES(session.rows) + first_row, rows);
    }

    const uint32_t rows;
    PartialHeadBuffers buffers;
    Buffer params;  // abi::SampleParams
    Buffer listed;  // (rows) logits in the order of the list
    CommandBuffer commands;
  };

  void submit(const CommandBuffer& commands) {
    naming_device([&] { shard_.device->submit({&commands}, fence_); });
  }
  template <class Work>
  void naming_device(const Work& work) const {
    try {
      work();
    } catch (const Error& error) {
      if (error.code() != Code::device_lost) throw;
      throw Error(Code::device_lost, error.sentence(),
                  "device " + shard_.device->caps().name + ", which has the vocabulary's rows from " +
                      std::to_string(shard_.first_row) + " on",
                  error.hint());
    }
  }

  const TableShard& shard_;
  const uint32_t stride_;
  Buffer rows_;     // (tokens, stride) in the table's basis, if it has one
  Buffer logits_;   // (rows)
  StepState step_;  // of which gather reads where the tokens begin and end
  Buffer history_;  // (tokens) ids, as rows of this part
  Buffer state_;    // (stride) in the table's basis
  CommandPool pool_;
  CommandBuffer gather_one_, gather_all_, project_;
  std::unique_ptr<Listing> listing_;  // made when first needed
  Fence fence_;                       // after the pool: it waits before that goes
};

ShardPasses::ShardPasses(const Model& model, uint32_t tokens) : stride_(stride_of(model.config.width)) {
  uint64_t rows = 0;
  for (const TableShard& shard : model.weights.shards) {
    shards_.push_back(std::make_unique<OnShard>(shard, model.config, tokens));
    rows += shard.rows();
  }
  rows_ = Buffer(model.device, "others' rows", uint64_t{tokens} * stride_ * 4, Memory::upload);
  state_ = Buffer(model.device, "state for others", uint64_t{stride_} * 4, Memory::readback);
  logits_ = Buffer(model.device, "others' logits", rows * 4, Memory::upload);
  std::memset(rows_.data(), 0, rows_.bytes());
}

ShardPasses::~ShardPasses() = default;

void ShardPasses::gather(std::span<const uint32_t> ids) {
  const auto wanted = [&](const auto& shard) {
    return std::ranges::any_of(ids, [&](uint32_t id) { return shard->has(id); });
  };
  for (const auto& shard : shards_)
    if (wanted(shard)) shard->begin_gather(ids);
  for (const auto& shard : shards_) {
    if (!wanted(shard)) continue;
    shard->wait();
    for (size_t i = 0; i < ids.size(); ++i)
      if (shard->has(ids[i])) std::memcpy(rows_.as<float>() + i * stride_, shard->row(i), stride_ * sizeof(float));
  }
}

void ShardPasses::begin_projection(const StepBuffers* partial) {
  for (const auto& shard : shards_) shard->begin_projection(state_, partial);
}

void ShardPasses::end_projection() {
  std::byte* to = logits_.as<std::byte>();
  for (const auto& shard : shards_) {
    shard->wait();
    std::memcpy(to, shard->logits().data(), shard->logits().bytes());
    to += shard->logits().bytes();
  }
}

}  // namespace weft
