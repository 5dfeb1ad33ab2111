package weft;

import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;

/**
 * A conversation with a model: its context, and what is computed of it.
 *
 * <p>Calls of several threads take turns; cancel and close end a generation. While it generates, a listener may call
 * getters, cancel and close.
 */
public final class Session implements ModelUser {
  private final Model model;
  private final int vocabSize;
  private final int width;
  private long handle; // guarded by this; 0: freed
  private boolean restoredSampling; // guarded by this: it is that of a file, until options have one
  private boolean restoredBias; // the same of the logit bias
  private long conversation; // guarded by this; 0: none yet
  private Model draft; // guarded by this: of the last request, as the next
  private long draftHandle; // the session has the model, also after Model.close; 0: none

  // The running generation. Never waited for with `state` held.
  private final Object state = new Object();
  private boolean closed; // guarded by state, as the next four
  private boolean generating;
  private boolean cancelled;
  private TokenListener listener;
  private PromptListener promptListener;
  private boolean apart; // guarded by this: reasoning is told apart from the answer
  private StringBuilder text; // used by the thread that generates, as the next three
  private StringBuilder reasoning;
  private int[] ids;
  private int count;

  Session(Model model, SessionOptions o) {
    this.model = model;
    ModelInfo info = model.info();
    vocabSize = info.vocabSize();
    width = info.width();
    handle =
        model.create(
            this, m -> Native.sessionCreate(m, o.context, o.kv.ordinal(), o.kvValues.ordinal(), o.polite ? 1 : 0));
  }

  /**
   * Ends a running generation, waits for it and frees the session. In a listener of that generation it does not wait:
   * the session is freed when the generation ends. Twice is fine.
   */
  @Override
  public void close() {
    synchronized (state) {
      closed = true;
    }
    cancel();
    synchronized (this) {
      if (!isGenerating()) free();
    }
  }

  /**
   * Ends a running generation after its present token, or between parts of its prompt. May be called from any thread,
   * and does not wait. Without a running generation it does nothing.
   */
  public void cancel() {
    TokenListener waiting;
    synchronized (state) {
      if (!generating) return;
      cancelled = true;
      Native.cancel(handle);
      waiting = listener;
    }
    if (waiting != null) waiting.onCancel();
  }

  /**
   * Limits how much of the time the device is busy with this session, which must be polite: 0 to 1. 1: no limit. 0: it pauses
   * until it is set again. Generating goes on at that pace, with the same tokens. May be called from any thread, and does not
   * wait. weft/duty.h says more.
   */
  public void setDuty(float share) {
    synchronized (state) {
      if (closed) throw new IllegalStateException("the session is closed");
      Native.setDuty(handle, share);
    }
  }

  /** Has the session keep to a duty, its work in small parts as of one that is polite; null: no longer. */
  public synchronized void useDuty(Duty duty) {
    long session = idle();
    if (duty == null) Native.useDuty(session, false, 0);
    else duty.useFor(session, false);
  }

  /**
   * Has the session use an adapter of its model from its next call on; null: none. The context is computed again when it is
   * next needed.
   */
  public synchronized void setAdapter(Adapter adapter) {
    long session = idle();
    if (adapter == null) Native.setAdapter(session, 0);
    else adapter.useFor(session);
  }

  private boolean isGenerating() {
    synchronized (state) {
      return generating;
    }
  }

  private void free() { // with this held
    if (handle == 0) return;
    Native.conversationFree(conversation);
    Native.sessionFree(handle);
    handle = conversation = 0;
    model.release(this);
  }

  private long open() { // with this held
    if (handle == 0) throw new IllegalStateException("the session is closed");
    return handle;
  }

  private long idle() { // with this held: by this thread, so a generation that runs is one whose listener is in this call
    if (isGenerating()) throw new IllegalStateException("the session generates");
    return open();
  }

  /**
   * Answers a conversation. The prefix that it shares with the context is not computed again. The oldest turns that the
   * context has no room for are left out of it; weft/conversation.h says more. An answer at the end of the messages is
   * replaced. listener may be null.
   *
   * @throws WeftException if it fails; the tokens that the listener got stay in the context
   */
  public synchronized Generation generate(List<Message> messages, GenerateOptions options, TokenListener listener) {
    byte[] json = Native.bytes(Message.json(messages, options.think));
    request(options, true);
    if (conversation == 0) conversation = Native.conversationCreate(handle);
    Native.conversationSet(conversation, json);
    return run(conversation, options, listener);
  }

  /** Continues a prompt: ids, as Model.tokenize returns them. listener may be null. */
  public synchronized Generation generate(int[] prompt, GenerateOptions options, TokenListener listener) {
    request(options, options.think != null);
    Native.prompt(handle, prompt);
    return run(0, options, listener);
  }

  /** Continues what is in the context. listener may be null. */
  public synchronized Generation proceed(GenerateOptions options, TokenListener listener) {
    request(options, apart);
    return run(0, options, listener);
  }

  private void request(GenerateOptions o, boolean separates) { // with this held
    long session = idle();
    if (o.draft == draft) {
      request(session, o, separates, draftHandle);
      return;
    }
    long handle = 0;
    if (o.draft == null)
      request(session, o, separates, 0);
    else
      handle = o.draft.draftFor(model -> request(session, o, separates, model));
    draft = o.draft;
    draftHandle = handle;
  }

  private Void request(long session, GenerateOptions o, boolean separates, long draft) {
    boolean keepSampling = restoredSampling && o.sampling == null;
    boolean keepBiases = restoredBias && o.logitBias == null;
    Sampling s = o.sampling == null ? new Sampling() : o.sampling;
    Map<Integer, Float> bias = o.logitBias == null ? Collections.emptyMap() : o.logitBias;
    int[] biased = new int[bias.size()];
    float[] biases = new float[bias.size()];
    int i = 0;
    for (Map.Entry<Integer, Float> entry : bias.entrySet()) {
      biased[i] = entry.getKey();
      biases[i++] = entry.getValue();
    }
    byte[][] stops = new byte[o.stops.size()][];
    for (i = 0; i < stops.length; ++i) stops[i] = Native.bytes(o.stops.get(i));
    Native.setRequest(
        session, keepSampling, s.temperature, s.topK, s.topP, s.minP, s.repeatPenalty, s.seed, s.presencePenalty,
        s.frequencyPenalty, s.typicalP, keepBiases, biased, biases, stops, o.logprobs, Native.bytes(o.head),
        o.speculate, draft, o.grammarKind, Native.bytes(o.grammar), separates ? o.thinkTokens : -1);
    restoredSampling = keepSampling;
    restoredBias = keepBiases;
    apart = separates;
    return null;
  }

  private Generation run(long answering, GenerateOptions options, TokenListener listener) {
    text = new StringBuilder();
    reasoning = new StringBuilder();
    ids = new int[16];
    count = 0;
    begin(listener, options.promptProgress);
    try {
      int stop = Native.generate(
              handle, answering, options.maxTokens, options.ignoreStopTokens, options.promptProgress != null, this);
      return new Generation(text.toString(), reasoning.toString(), Arrays.copyOf(ids, count), StopReason.values()[stop], Native.stats(handle));
    } finally {
      end();
    }
  }

  /** The session generates, or tells a lens: it cannot be changed or freed. */
  private void begin(TokenListener listener, PromptListener promptListener) { // with this held
    synchronized (state) {
      if (closed) throw new IllegalStateException("the session is closed");
      generating = true;
      this.listener = listener;
      this.promptListener = promptListener;
      cancelled = false;
      Native.clearCancel(handle); // one that came too late for the generation before
    }
  }

  private void end() { // with this held
    boolean end;
    synchronized (state) {
      generating = false;
      listener = null;
      promptListener = null;
      end = closed;
    }
    if (end) free();
  }

  /** Called by weft_jni.cpp. False: no more tokens are wanted. */
  private boolean onToken(int id, byte[] utf8) {
    String piece = Native.text(utf8);
    text.append(piece);
    if (id >= 0) {
      if (count == ids.length) ids = Arrays.copyOf(ids, count * 2);
      ids[count++] = id;
    }
    TokenListener told;
    synchronized (state) {
      if (cancelled) return false;
      told = listener;
    }
    return told == null || told.onToken(id, piece);
  }

  /** Called by session_jni.cpp. False: no more tokens are wanted. */
  private boolean onReasoning(byte[] utf8) {
    String piece = Native.text(utf8);
    reasoning.append(piece);
    TokenListener told;
    synchronized (state) {
      if (cancelled) return false;
      told = listener;
    }
    return told == null || told.onReasoning(piece);
  }

  /** Called by weft_jni.cpp. False: end the generation. */
  private boolean onPrompt(int done, int all) {
    PromptListener told;
    synchronized (state) {
      if (cancelled) return false;
      told = promptListener;
    }
    return told.onPrompt(done, all);
  }

  /** Makes the context these ids. Computes nothing yet. */
  public synchronized void prompt(int[] ids) {
    Native.prompt(idle(), ids);
  }

  /** Makes the context these parts: ids, and rows of soft tokens. proceed continues it. */
  public synchronized void prompt(List<PromptPart> parts) {
    Object[] arrays = new Object[parts.size()];
    for (int i = 0; i < arrays.length; ++i) {
      arrays[i] = parts.get(i).values;
      if (arrays[i] instanceof float[] && ((float[]) arrays[i]).length % width != 0)
        throw new IllegalArgumentException("part " + i + " has no whole rows of " + width + " floats");
    }
    Native.promptParts(idle(), arrays, width);
  }

  /** Empties the context and the statistics. */
  public synchronized void reset() {
    Native.reset(idle());
  }

  /** The ids of the context. */
  public synchronized int[] ids() {
    return Native.ids(open());
  }

  public synchronized GenerationStats stats() {
    return Native.stats(open());
  }

  /** Log-probabilities of the token that the listener got last, with the option logprobs. The listener may call it. */
  public synchronized Logprobs logprobs() {
    return Native.logprobs(open());
  }

  /** A logit of each token of the vocabulary after the context, before bias and penalties. */
  public synchronized float[] logits() {
    return Native.logits(idle(), vocabSize);
  }

  /**
   * Tells the hidden states of the context, token after token, and of each the layers in the given order: the logit lens.
   *
   * @param count tokens from the position `first` on; 0: all
   * @param layers null: all, from 0 (the embedding) to ModelInfo.layers
   * @param logits whether the listener gets logits, which take most of the time
   */
  public synchronized void lens(int first, int count, int[] layers, boolean logits, LensListener listener) {
    idle();
    begin(null, null);
    try {
      Native.lens(
          handle, first, count, layers, logits, width, vocabSize,
          (layer, position, hidden, values) -> !isCancelled() && listener.onRow(layer, position, hidden, values));
    } finally {
      end();
    }
  }

  /**
   * Has lens() translate the hidden states first, by a folder with the config.json and params.safetensors of a tuned lens;
   * null: no longer.
   */
  public synchronized void setTunedLens(String folder) {
    Native.setTunedLens(idle(), Native.bytes(folder));
  }

  private boolean isCancelled() {
    synchronized (state) {
      return cancelled;
    }
  }

  /** How badly the model predicts each id after the first: -ln p. The ids become the context. */
  public synchronized float[] score(int[] ids) {
    return Native.score(idle(), ids);
  }

  /**
   * Writes the session to a file, from which restore goes on, also in other languages. note: a text of your own in the
   * file; null: none.
   */
  public synchronized void save(String path, String note) {
    Native.save(idle(), Native.bytes(path), Native.bytes(note));
  }

  /**
   * The same at the position of an open descriptor, such as a ParcelFileDescriptor's, which stays open. A regular file is
   * cut off after the session.
   */
  public synchronized void save(int descriptor, String note) {
    Native.saveTo(idle(), descriptor, Native.bytes(note));
  }

  /**
   * Replaces context, sampling and logit bias by those of a file, and returns the file's note. Its sampling and bias hold
   * until options have such.
   */
  public synchronized String restore(String path) {
    return restored(Native.restore(idle(), Native.bytes(path)));
  }

  /** The same from the position of an open descriptor to its end. */
  public synchronized String restore(int descriptor) {
    return restored(Native.restoreFrom(idle(), descriptor));
  }

  private String restored(byte[] note) {
    restoredSampling = restoredBias = true;
    return Native.text(note);
  }

  /** Where the device's time goes in one pass, as JSON; weft_session_profile of weft.h lists the keys. */
  public synchronized String profile(int tokens, int repeat) {
    return Native.text(Native.profile(idle(), tokens, repeat));
  }
}
