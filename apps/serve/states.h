// Computed contexts on disk: those that /slots saves by name, and conversations that had to make place for others.
#pragma once

#include <cstdint>
#include <list>
#include <mutex>
#include <string>
#include <vector>
#include <weft/weft.hpp>

namespace weft::serve {

// All may be called by any thread, with a session that no other thread uses.
class States {
 public:
  // folder: the files are there, and no others; limit: bytes of all. Throws api::Failure if it cannot be written.
  States(std::string folder, std::uint64_t limit);
  ~States();
  States(const States&) = delete;
  States& operator=(const States&) = delete;

  // The file that has this name; return its bytes. Throw RequestError for a name that is none, for an unknown one and
  // if the limit leaves no place; and api::Failure.
  std::uint64_t save(const api::Session& session, const std::string& name);
  std::uint64_t restore(api::Session& session, const std::string& name);

  // Writes a conversation that loses its session. Older ones give way. A conversation that cannot be written is
  // computed again later.
  void keep(const api::Session& session);
  // Restores the conversation that shares most with the prompt, if that is at least so many tokens. It is then the
  // session's alone.
  void recall(api::Session& session, const std::vector<std::uint32_t>& prompt, std::size_t least);

 private:
  // In a file without a name, which goes away with its descriptor.
  struct Kept {
    explicit Kept(const std::string& folder);
    ~Kept();
    Kept(const Kept&) = delete;
    Kept& operator=(const Kept&) = delete;
    int descriptor;
    std::uint64_t bytes = 0;
    std::vector<std::uint32_t> ids;
  };
  std::string path(const std::string& name) const;
  bool make_place(std::uint64_t bytes, const std::string& replaced);

  const std::string folder_;
  const std::uint64_t limit_;
  std::mutex mutex_;      // of what follows, and of the names in the folder
  std::list<Kept> kept_;  // the oldest first
};

}  // namespace weft::serve
