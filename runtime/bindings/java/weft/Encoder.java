package weft;

/** Computes embeddings, and logits for masked words, with a model that was made for them. Calls of several threads take turns. */
public final class Encoder implements ModelUser {
  private final Model model;
  private final int size;
  private final int vocabSize;
  private long handle; // guarded by this

  Encoder(Model model) {
    this.model = model;
    vocabSize = model.info().vocabSize();
    handle = model.create(this, Native::encoderCreate);
    size = model.embeddingSize();
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

  /** Elements of an embedding. */
  public int size() {
    return size;
  }

  /** The embedding of a text, of Euclidean length 1, with the default prompt of the model's files, if they have one. */
  public float[] embed(String text) {
    return embed(text, null);
  }

  /** The same with a prompt of the model's files, "query" or "document" for example. */
  public float[] embed(String text, String prompt) {
    return embed(model.tokenize(model.prompt(prompt) + text), Pooling.MODEL);
  }

  /** The embedding of ids, as Model.tokenize returns them. */
  public float[] embed(int[] ids, Pooling pooling) {
    return embed(ids, pooling, size);
  }

  /** The first elements of the embedding, scaled to Euclidean length 1. */
  public synchronized float[] embed(int[] ids, Pooling pooling, int dimensions) {
    if (dimensions < 1 || dimensions > size)
      throw new IllegalArgumentException("dimensions is " + dimensions + ", an embedding has " + size);
    run(ids);
    return Native.encoderEmbedding(handle, pooling.ordinal(), dimensions);
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
