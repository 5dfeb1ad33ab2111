#include "gpu/specialise.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace weft {
namespace {

// Instructions and decorations of the SPIR-V specification 1.3, section 3.
enum : uint32_t {
  kEntryPoint = 15,
  kTypeInt = 21,
  kConstantTrue = 41,
  kConstantFalse = 42,
  kConstant = 43,
  kSpecConstantTrue = 48,
  kSpecConstantFalse = 49,
  kSpecConstant = 50,
  kSpecConstantOp = 52,
  kFunction = 54,
  kFunctionEnd = 56,
  kFunctionCall = 57,
  kVariable = 59,
  kStore = 62,
  kCopyMemory = 63,
  kDecorate = 71,
  kImageWrite = 99,
  kIAdd = 128,
  kISub = 130,
  kIMul = 132,
  kUDiv = 134,
  kUMod = 137,
  kLogicalEqual = 164,
  kLogicalNotEqual = 165,
  kLogicalOr = 166,
  kLogicalAnd = 167,
  kLogicalNot = 168,
  kSelect = 169,
  kIEqual = 170,
  kINotEqual = 171,
  kUGreaterThan = 172,
  kUGreaterThanEqual = 174,
  kULessThan = 176,
  kULessThanEqual = 178,
  kControlBarrier = 224,
  kMemoryBarrier = 225,
  kAtomicStore = 228,
  kPhi = 245,
  kLoopMerge = 246,
  kSelectionMerge = 247,
  kLabel = 248,
  kBranch = 249,
  kBranchConditional = 250,
  kSwitch = 251,
  kUnreachable = 255,
  kCooperativeMatrixStore = 4458,
  kDecorationSpecId = 1,
  kWorkgroup = 4,  // a storage class
};
constexpr size_t kHeader = 5;  // words before the first instruction

// w[0] has an instruction's number and its length in words; w[1] and so on are its operands.
struct Instruction {
  const uint32_t* w;
  uint32_t opcode() const { return w[0] & 0xffff; }
  uint32_t words() const { return w[0] >> 16; }
  // The id that it defines, if it is one of a function; 0: none.
  uint32_t result() const {
    switch (opcode()) {
      case kStore:
      case kCopyMemory:
      case kImageWrite:
      case kControlBarrier:
      case kMemoryBarrier:
      case kAtomicStore:
      case kCooperativeMatrixStore:
        return 0;
      case kLabel:
        return w[1];
      default:
        return (opcode() >= kLoopMerge && opcode() <= kUnreachable) || words() < 3 ? 0 : w[2];
    }
  }
};

struct Block {
  uint32_t label = 0;
  std::vector<Instruction> instructions;  // without the label; the last one ends the block
  bool live = false;
  std::optional<uint32_t> only_next;  // the label that constants choose where its last instruction has a choice
};

struct Function {
  uint32_t id = 0;
  std::vector<Instruction> head;  // OpFunction and its parameters
  std::vector<Block> blocks;
  std::set<std::pair<uint32_t, uint32_t>> edges;  // that may be taken: from a label to a label
  // Dead blocks that a loop or a selection names, and where they go: 0: nowhere.
  std::map<uint32_t, uint32_t> stubs;
};

class Module {
 public:
  Module(std::span<const uint32_t> spirv, std::span<const uint32_t> constants) : spirv_(spirv), constants_(constants) {}

  // Finds out which blocks are dead. False: something is unknown, and the module must stay as it is.
  bool fold() {
    return read() && std::ranges::all_of(functions_, [&](Function& function) { return fold(function); });
  }
  std::vector<uint32_t> write() const;

 private:
  using Value = std::optional<uint32_t>;

  bool read();
  void note_global(const Instruction& one);
  bool fold(Function& function);
  void note(const Function& function, const Instruction& one);
  std::vector<uint32_t> next_of(Block& block) const;
  bool make_stubs(Function& function) const;
  Value value(uint32_t id) const;
  Value compute(uint32_t opcode, const uint32_t* operands, uint32_t count) const;
  std::set<uint32_t> called() const;

  std::span<const uint32_t> spirv_, constants_;
  std::vector<Instruction> globals_;
  std::vector<Function> functions_;
  std::set<uint32_t> integers_;            // types of 32 bits
  std::map<uint32_t, uint32_t> spec_ids_;  // by the constant's id
  std::map<uint32_t, uint32_t> values_;    // integers and booleans that are known, by id
  uint32_t entry_ = 0;
};

bool Module::read() {
  bool in_function = false;
  for (size_t at = kHeader; at < spirv_.size(); at += spirv_[at] >> 16) {
    const Instruction one = {&spirv_[at]};
    if (one.words() == 0 || at + one.words() > spirv_.size()) return false;
    if (one.opcode() == kFunction) {
      functions_.emplace_back().id = one.w[2];
      in_function = true;
    }
    if (!in_function) {
      globals_.push_back(one);
      note_global(one);
    } else if (one.opcode() == kFunctionEnd) {
      in_function = false;
    } else if (one.opcode() == kLabel) {
      functions_.back().blocks.emplace_back().label = one.w[1];
    } else {
      Function& function = functions_.back();
      (function.blocks.empty() ? function.head : function.blocks.back().instructions).push_back(one);
    }
  }
  return entry_ != 0 && !in_function;
}

void Module::note_global(const Instruction& one) {
  const uint32_t* const w = one.w;
  const auto specialised = [&](uint32_t standard) {
    const auto found = spec_ids_.find(w[2]);
    return found != spec_ids_.end() && found->second < constants_.size() ? constants_[found->second] : standard;
  };
  switch (one.opcode()) {
    case kEntryPoint:
      entry_ = w[2];
      return;
    case kDecorate:
      if (w[2] == kDecorationSpecId) spec_ids_[w[1]] = w[3];
      return;
    case kTypeInt:
      if (w[2] == 32) integers_.insert(w[1]);
      return;
    case kConstantTrue:
    case kConstantFalse:
      values_[w[2]] = one.opcode() == kConstantTrue;
      return;
    case kSpecConstantTrue:
    case kSpecConstantFalse:
      values_[w[2]] = specialised(one.opcode() == kSpecConstantTrue) != 0;
      return;
    case kConstant:
      if (integers_.count(w[1])) values_[w[2]] = w[3];
      return;
    case kSpecConstant:
      if (integers_.count(w[1])) values_[w[2]] = specialised(w[3]);
      return;
    case kSpecConstantOp:
      if (const Value result = compute(w[3], w + 4, one.words() - 4)) values_[w[2]] = *result;
      return;
    default:
      return;
  }
}

Module::Value Module::value(uint32_t id) const {
  const auto found = values_.find(id);
  return found == values_.end() ? Value{} : found->second;
}

// The result of an operation on two integers or booleans, if it is one that shaders choose branches by.
std::optional<uint32_t> result_of(uint32_t opcode, uint32_t a, uint32_t b) {
  switch (opcode) {
    case kLogicalAnd:
      return a && b;
    case kLogicalOr:
      return a || b;
    case kLogicalEqual:
    case kIEqual:
      return a == b;
    case kLogicalNotEqual:
    case kINotEqual:
      return a != b;
    case kUGreaterThan:
      return a > b;
    case kUGreaterThanEqual:
      return a >= b;
    case kULessThan:
      return a < b;
    case kULessThanEqual:
      return a <= b;
    case kIAdd:
      return a + b;
    case kISub:
      return a - b;
    case kIMul:
      return a * b;
    case kUDiv:
      return b ? std::optional(a / b) : std::nullopt;
    case kUMod:
      return b ? std::optional(a % b) : std::nullopt;
    default:
      return {};
  }
}

// The result of an operation, if it is known. One known operand may be enough.
Module::Value Module::compute(uint32_t opcode, const uint32_t* operands, uint32_t count) const {
  if (count == 0 || count > 3) return {};
  const Value a = value(operands[0]);
  if (opcode == kLogicalNot) return a ? Value{!*a} : Value{};
  if (opcode == kSelect) return a && count == 3 ? value(operands[*a ? 1 : 2]) : Value{};
  if (count != 2) return {};
  const Value b = value(operands[1]);
  if (opcode == kLogicalAnd && (a == 0u || b == 0u)) return 0;
  if (opcode == kLogicalOr && (a == 1u || b == 1u)) return 1;
  return a && b ? result_of(opcode, *a, *b) : Value{};
}

// Blocks stand in an order in which all that lead to one, but for the ways back of loops, come before it.
bool Module::fold(Function& function) {
  std::map<uint32_t, size_t> places;
  for (size_t i = 0; i < function.blocks.size(); ++i) places[function.blocks[i].label] = i;
  if (function.blocks.empty()) return false;
  function.blocks[0].live = true;
  for (size_t i = 0; i < function.blocks.size(); ++i) {
    Block& block = function.blocks[i];
    if (block.instructions.empty()) return false;
    if (!block.live) continue;
    for (const Instruction& one : block.instructions) note(function, one);
    for (const uint32_t label : next_of(block)) {
      const auto to = places.find(label);
      if (to == places.end() || (to->second <= i && !function.blocks[to->second].live)) return false;
      function.edges.insert({block.label, label});
      function.blocks[to->second].live = true;
    }
  }
  return make_stubs(function);
}

// Notes the value of an instruction of a live block.
void Module::note(const Function& function, const Instruction& one) {
  const uint32_t* const w = one.w;
  if (one.words() < 4 || one.result() == 0) return;
  if (one.opcode() != kPhi) {
    if (const Value result = compute(one.opcode(), w + 3, one.words() - 3)) values_[w[2]] = *result;
    return;
  }
  // The same from everywhere. Ways back of loops are not known yet.
  Value result;
  for (uint32_t i = 3; i + 1 < one.words(); i += 2) {
    const auto from = std::ranges::find(function.blocks, w[i + 1], &Block::label);
    const auto here = std::ranges::find_if(function.blocks, [&](const Block& block) {
      return !block.instructions.empty() && block.instructions.front().w <= w && w <= block.instructions.back().w;
    });
    if (from >= here) return;
    if (!from->live) continue;
    const Value incoming = value(w[i]);
    if (!incoming || (result && *result != *incoming)) return;
    result = incoming;
  }
  if (result) values_[w[2]] = *result;
}

// The labels where a live block may go.
std::vector<uint32_t> Module::next_of(Block& block) const {
  const Instruction last = block.instructions.back();
  if (last.opcode() == kBranch) return {last.w[1]};
  std::vector<uint32_t> next;
  if (last.opcode() == kSwitch)
    for (uint32_t i = 2; i < last.words(); i += 2) next.push_back(last.w[i]);
  if (last.opcode() == kBranchConditional) {
    next = {last.w[2], last.w[3]};
    // The branch of a loop itself stays: without a way back it would be none.
    const size_t count = block.instructions.size();
    const bool selects = count > 1 && block.instructions[count - 2].opcode() == kSelectionMerge;
    const Value chosen = value(last.w[1]);
    if (chosen && selects) next = {*(block.only_next = last.w[*chosen ? 2 : 3])};
  }
  return next;
}

bool Module::make_stubs(Function& function) const {
  const auto is_live = [&](uint32_t label) {
    const auto found = std::ranges::find(function.blocks, label, &Block::label);
    return found != function.blocks.end() && found->live;
  };
  for (const Block& block : function.blocks) {
    if (!block.live || block.only_next) continue;
    for (const Instruction& one : block.instructions) {
      const bool loop = one.opcode() == kLoopMerge;
      if ((loop || one.opcode() == kSelectionMerge) && !is_live(one.w[1])) function.stubs[one.w[1]] = 0;
      if (!loop || is_live(one.w[2])) continue;
      function.stubs[one.w[2]] = block.label;
      // A value that comes with the loop's way back would be undefined.
      if (block.instructions.front().opcode() == kPhi) return false;
    }
  }
  return true;
}

// Functions that the entry point reaches.
std::set<uint32_t> Module::called() const {
  std::set<uint32_t> all;
  std::vector<uint32_t> open = {entry_};
  while (!open.empty()) {
    const uint32_t id = open.back();
    open.pop_back();
    if (!all.insert(id).second) continue;
    const auto function = std::ranges::find(functions_, id, &Function::id);
    if (function == functions_.end()) continue;
    for (const Block& block : function->blocks)
      for (const Instruction& one : block.instructions)
        if (block.live && one.opcode() == kFunctionCall) open.push_back(one.w[3]);
  }
  return all;
}

void append(std::vector<uint32_t>& out, const Instruction& one) { out.insert(out.end(), one.w, one.w + one.words()); }
void append(std::vector<uint32_t>& out, uint32_t opcode, std::initializer_list<uint32_t> operands) {
  out.push_back(static_cast<uint32_t>(operands.size() + 1) << 16 | opcode);
  out.insert(out.end(), operands);
}

void append(std::vector<uint32_t>& out, const Function& function, const Block& block) {
  append(out, kLabel, {block.label});
  const size_t kept = block.instructions.size() - (block.only_next ? 2 : 0);  // without the merge and the branch
  for (size_t i = 0; i < kept; ++i) {
    const Instruction one = block.instructions[i];
    const size_t start = out.size();
    if (one.opcode() != kPhi) {
      append(out, one);
      continue;
    }
    out.insert(out.end(), one.w, one.w + 3);
    for (uint32_t k = 3; k + 1 < one.words(); k += 2)
      if (function.edges.count({one.w[k + 1], block.label})) out.insert(out.end(), {one.w[k], one.w[k + 1]});
    out[start] = static_cast<uint32_t>(out.size() - start) << 16 | kPhi;
  }
  if (block.only_next) append(out, kBranch, {*block.only_next});
}

std::vector<uint32_t> Module::write() const {
  const std::set<uint32_t> wanted = called();
  std::vector<uint32_t> code;
  std::set<uint32_t> gone;  // ids that nothing defines any more
  for (const Function& function : functions_) {
    const bool is_wanted = wanted.count(function.id) > 0;
    for (const Instruction& one : function.head) is_wanted ? append(code, one) : void(gone.insert(one.result()));
    for (const Block& block : function.blocks) {
      if (is_wanted && block.live) {
        append(code, function, block);
        continue;
      }
      for (const Instruction& one : block.instructions) gone.insert(one.result());
      const auto stub = function.stubs.find(block.label);
      if (!is_wanted || stub == function.stubs.end()) continue;
      append(code, kLabel, {block.label});
      if (stub->second)
        append(code, kBranch, {stub->second});
      else
        append(code, kUnreachable, {});
    }
    if (is_wanted) append(code, kFunctionEnd, {});
  }
  // Shared memory that nothing uses. A number may look like a use.
  const std::set<uint32_t> words(code.begin(), code.end());
  for (const Instruction& one : globals_)
    if (one.opcode() == kVariable && one.w[3] == kWorkgroup && !words.count(one.w[2])) gone.insert(one.w[2]);
  std::vector<uint32_t> out(spirv_.begin(), spirv_.begin() + kHeader);
  for (const Instruction& one : globals_) {
    const bool is_gone =
        (one.opcode() == kDecorate && gone.count(one.w[1])) || (one.opcode() == kVariable && gone.count(one.w[2]));
    if (!is_gone) append(out, one);
  }
  out.insert(out.end(), code.begin(), code.end());
  return out;
}

}  // namespace

std::vector<uint32_t> specialise(std::span<const uint32_t> spirv, std::span<const uint32_t> constants) {
  Module module(spirv, constants);
  if (!module.fold()) return {spirv.begin(), spirv.end()};
  return module.write();
}

}  // namespace weft
