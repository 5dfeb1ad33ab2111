// A bound on how deep a reader of hostile text calls itself, so that no text takes more than a small stack.
#pragma once

namespace weft {

// Counts the levels that are open. All functions of a reader that call themselves or one another share one.
class Depth {
 public:
  explicit Depth(int most) : most_(most) {}

  // A level, as long as it lives. refuse() is called if there are too many, and has to throw.
  class Level {
   public:
    template <typename Refuse>
    Level(Depth& depth, Refuse refuse) : depth_(depth) {
      if (depth.now_ >= depth.most_) refuse();
      ++depth.now_;
    }
    ~Level() { --depth_.now_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    Depth& depth_;
  };

 private:
  int most_, now_ = 0;
};

}  // namespace weft
