package weft;

/** Rates how well documents answer a query, with a model such as Qwen3-Reranker. Calls of several threads take turns. */
public final class Reranker implements ModelUser {
  private final Model model;
  private long handle; // guarded by this

  Reranker(Model model) {
    this.model = model;
    handle = model.create(this, Native::rerankerCreate);
  }

  /** Frees the reranker, after calls that other threads are in. Twice is fine. */
  @Override
  public void close() {
    synchronized (this) {
      if (handle == 0) return;
      Native.rerankerFree(handle);
      handle = 0;
    }
    model.release(this);
  }

  /** 0 to 1. instruction: what is asked for; null: passages that answer the query. weft/rerank.h says more. */
  public synchronized float score(String query, String document, String instruction) {
    if (handle == 0) throw new IllegalStateException("the reranker is closed");
    return Native.rerankerScore(handle, Native.bytes(instruction), Native.bytes(query), Native.bytes(document));
  }
}
