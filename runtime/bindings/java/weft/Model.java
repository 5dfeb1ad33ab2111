package weft;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.locks.ReadWriteLock;
import java.util.concurrent.locks.ReentrantReadWriteLock;

/** A loaded model. Any number of threads may use it at the same time. */
public final class Model implements AutoCloseable {
  private final ReadWriteLock use = new ReentrantReadWriteLock(); // write: the handle is freed
  private final Set<ModelUser> users = new HashSet<>(); // those that are not freed
  private boolean closed; // guarded by users
  private final ByteBuffer memory; // null: of a file
  private long handle;

  /** Models that are not freed and read the caller's memory: it stays, even if nobody has the model any more. */
  private static final Set<Model> WITH_MEMORY = ConcurrentHashMap.newKeySet();

  /** memory null: the model is in a part of the descriptor; descriptor -1: it is at the path. */
  Model(String path, int descriptor, long offset, long length, ByteBuffer memory, ModelOptions o) {
    this.memory = memory;
    handle =
        Native.modelLoad(
            Native.bytes(path), descriptor, offset, length, memory, Native.bytes(o.device), o.type.ordinal(),
            o.vocabType.ordinal(), o.memoryBudget, o.int8Inputs, o.tie ? 0 : 1, o.progress);
    if (memory != null) WITH_MEMORY.add(this);
  }

  interface Call<T> {
    T with(long handle);
  }

  private <T> T call(Call<T> call) {
    use.readLock().lock();
    try {
      synchronized (users) {
        if (closed) throw new IllegalStateException("the model is closed");
      }
      return call.with(handle);
    } finally {
      use.readLock().unlock();
    }
  }

  /** Makes a native object that the model outlives. */
  long create(ModelUser user, Call<Long> call) {
    return call(
        model -> {
          long made = call.with(model);
          synchronized (users) {
            users.add(user);
          }
          return made;
        });
  }

  /** Has a session of another model guess with this one. Returns its handle, which the session keeps. */
  long draftFor(Call<Void> setRequest) {
    return call(
        model -> {
          setRequest.with(model);
          return model;
        });
  }

  /** After the user is freed. */
  void release(ModelUser user) {
    synchronized (users) {
      users.remove(user);
    }
    freeIfUnused();
  }

  private void freeIfUnused() {
    use.writeLock().lock();
    try {
      synchronized (users) {
        if (!closed || !users.isEmpty() || handle == 0) return;
      }
      Native.modelFree(handle);
      handle = 0;
      WITH_MEMORY.remove(this);
    } finally {
      use.writeLock().unlock();
    }
  }

  /**
   * Closes what the model has made, such as sessions, then frees it. It waits for what is running, but for a call in whose
   * listener it is called: the memory is then freed when that ends. Twice is fine.
   */
  @Override
  public void close() {
    List<ModelUser> open;
    synchronized (users) {
      closed = true;
      open = new ArrayList<>(users);
    }
    for (ModelUser user : open) user.close();
    freeIfUnused();
  }

  /** A new conversation, which must be closed. */
  public Session session(SessionOptions options) {
    return new Session(this, options);
  }

  /** A new reranker, which must be closed. */
  public Reranker reranker() {
    return new Reranker(this);
  }

  /** A new transcriber, which must be closed. */
  public Transcriber transcriber() {
    return new Transcriber(this);
  }

  /** A new encoder, which must be closed. */
  public Encoder encoder() {
    return new Encoder(this);
  }

  /**
   * Loads a LoRA adapter, which must be closed: a GGUF file, or a folder as PEFT writes it. scale multiplies the scale of
   * the file. weft/adapter.h says more.
   */
  public Adapter adapter(String path, float scale) {
    return new Adapter(this, path, scale);
  }

  public ModelInfo info() {
    return call(Native::modelInfo);
  }

  /**
   * Opens the device again and loads the weights, after the device was lost. Sessions go on. Calls that need the device do
   * so by themselves; this tries it at once. weft_model_recover of weft/recover.h says more.
   */
  public void recover() {
    call(
        model -> {
          Native.modelRecover(model);
          return null;
        });
  }

  /** Tensors, buffers and rounding errors as JSON; weft_model_describe of weft.h lists the keys. */
  public String describe() {
    return Native.text(call(Native::modelDescribe));
  }

  /** The read bandwidth of the model's device in GB/s (10^9 bytes). */
  public double measureBandwidth() {
    return call(Native::modelMeasureBandwidth);
  }

  /** The ids of a text, with the begin-of-text token if the model uses one, and an encoder's end token. */
  public int[] tokenize(String text) {
    return tokenize(text, true, false);
  }

  /** parseSpecial: texts such as {@code "<|eot|>"} become control tokens. */
  public int[] tokenize(String text, boolean addBos, boolean parseSpecial) {
    byte[] utf8 = Native.utf8(text);
    return call(model -> Native.tokenize(model, utf8, parseSpecial, addBos));
  }

  /** The text of ids. Control tokens have none. */
  public String detokenize(int... ids) {
    return Native.text(call(model -> Native.detokenize(model, ids)));
  }

  /** The text that the model's files want before a text that is embedded; null: the default, often empty. */
  public String prompt(String name) {
    byte[] text = Native.bytes(name);
    return Native.text(call(model -> Native.textPrompt(model, text)));
  }

  int embeddingSize() {
    return call(Native::embeddingSize);
  }

  /** The ids of a conversation, up to where the assistant's answer begins: their number is what it takes. */
  public int[] applyChatTemplate(List<Message> messages) {
    return applyChatTemplate(messages, null);
  }

  /**
   * The same.
   *
   * @param think has the model reason first, or not; null: as its template has it. weft/reasoning.h says more.
   */
  public int[] applyChatTemplate(List<Message> messages, Boolean think) {
    return call(model -> applyChatTemplate(model, messages, think));
  }

  static int[] applyChatTemplate(long model, List<Message> messages, Boolean think) {
    byte[][] roles = new byte[messages.size()][];
    byte[][] contents = new byte[messages.size()][];
    for (int i = 0; i < roles.length; ++i) {
      roles[i] = Native.bytes(messages.get(i).role);
      contents[i] = Native.bytes(messages.get(i).content);
    }
    return Native.applyChatTemplate(model, roles, contents, think == null ? -1 : think ? 1 : 0);
  }

  /** The rows of the vocabulary table for these ids, one after the other, as the network reads them: for PromptPart.rows. */
  public float[] rows(int... ids) {
    int width = info().width();
    return call(model -> Native.rows(model, ids, width));
  }

  /** The ids of a keep-list such as "ascii,digits"; null: control and single-byte tokens. docs/heads.md explains them. */
  public int[] keep(String list) {
    byte[] text = Native.bytes(list);
    return call(model -> Native.keep(model, text));
  }

  /** Writes ids to a file that keep and the head "keep:PATH" read. */
  public void saveKeepList(int[] ids, String path) {
    byte[] file = Native.bytes(path);
    call(
        model -> {
          Native.saveKeepList(model, ids, file);
          return null;
        });
  }
}
