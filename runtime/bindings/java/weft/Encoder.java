package weft;

/** Computes embeddings, and logits for masked words, with a model such as BERT. Calls of several threads take turns. */
public final class Encoder implements AutoCloseable {
  private final Model model;
  private final int width;
  private final int vocabSize;
  private long handle; // guarded by this

  Encoder(Model model) {
    this.model = model;
    ModelInfo info = model.info();
    width = info.width();
    vocabSize = info.vocabSize();
    handle = model.create(this, Native::encoderCreate);
  }

  /** Frees the encoder, after calls that other threads are in. Twice is fine. */
  @Override
  public void close() {
    synchronized (this) {
      if (handle == 0) return;
      Native.encoderFree(handle);
      handle = 0;
    }
    model.release(this);
  }

  /** The embedding of a text, of Euclidean length 1. */
  public float[] embed(String text) {
    return embed(model.tokenize(text), Pooling.MODEL);
  }

  /** The embedding of ids, as Model.tokenize returns them. */
  public synchronized float[] embed(int[] ids, Pooling pooling) {
    run(ids);
    return Native.encoderEmbedding(handle, pooling.ordinal(), width);
  }

  /** A logit of each token of the vocabulary for the token at index place, usually ModelInfo.maskToken. */
  public synchronized float[] maskedLogits(int[] ids, int place) {
    run(ids);
    if (place < 0) throw new IllegalArgumentException("place is " + place);
    return Native.encoderMaskedLogits(handle, place, vocabSize);
  }

  private void run(int[] ids) {
    if (handle == 0) throw new IllegalStateException("the encoder is closed");
    Native.encoderRun(handle, ids);
  }
}
