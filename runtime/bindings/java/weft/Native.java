package weft;

import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/**
 * The C API of libweft through JNI (weft_jni.cpp). Handles are pointers; texts are UTF-8 as bytes, because JNI's own
 * strings are not; enums are their ordinals.
 */
final class Native {
  static {
    try {
      System.loadLibrary("weft_jni");
    } catch (UnsatisfiedLinkError missing) {
      Bundle.load(missing);
    }
  }

  private Native() {}

  static String text(byte[] utf8) {
    return utf8 == null ? null : new String(utf8, StandardCharsets.UTF_8);
  }

  /** The bytes of a text; null of null. C would cut a text at a NUL character. */
  static byte[] bytes(String text) {
    if (text == null) return null;
    if (text.indexOf('\0') >= 0) throw new IllegalArgumentException("the text has a NUL character");
    return utf8(text);
  }

  /** The same for a text that may have NUL characters and is not null. */
  static byte[] utf8(String text) {
    try {
      ByteBuffer utf8 = StandardCharsets.UTF_8.newEncoder().encode(CharBuffer.wrap(text)); // String.getBytes would write '?'
      return Arrays.copyOf(utf8.array(), utf8.limit());
    } catch (CharacterCodingException half) {
      throw new IllegalArgumentException("the text has half of a surrogate pair", half);
    }
  }

  static native byte[] version();

  static native void setCacheFolder(byte[] folder);

  static native byte[] devices();

  static native byte[] tune(byte[] device, ProgressListener listener);

  static native byte[] probe(
      byte[] path, long needed, byte[] device, int type, int vocabType, long memoryBudget, boolean int8Inputs, int tie,
      int context, int kv, int kvValues);

  static native long modelLoad(
      byte[] path, int descriptor, long offset, long length, ByteBuffer memory, byte[] device, int type, int vocabType,
      long memoryBudget, boolean int8Inputs, int tie, ProgressListener listener);

  static native void modelFree(long model);

  static native void modelRecover(long model);

  static native ModelInfo modelInfo(long model);

  static native byte[] modelDescribe(long model);

  static native double modelMeasureBandwidth(long model);

  static native int[] tokenize(long model, byte[] text, boolean parseSpecial, boolean addBos);

  static native byte[] detokenize(long model, int[] ids);

  /** think: -1: as the template has it. */
  static native int[] applyChatTemplate(long model, byte[][] roles, byte[][] contents, int think);

  static native int[] keep(long model, byte[] list);

  static native void saveKeepList(long model, int[] ids, byte[] path);

  static native float[] rows(long model, int[] ids, int width);

  static native int embeddingSize(long model);

  static native byte[] textPrompt(long model, byte[] name);

  static native long rerankerCreate(long model);

  static native void rerankerFree(long reranker);

  static native float rerankerScore(long reranker, byte[] instruction, byte[] query, byte[] document);

  static native long listenerCreate(long model);

  static native void listenerFree(long listener);

  static native void listenerBegin(
      long listener, byte[] language, boolean translate, byte[] prompt, int samplesPerSecond, float[] temperatures,
      boolean words);

  /** Calls onSegment of the object for each segment. samples: null: the recording ends. */
  static native void listenerHear(long listener, float[] samples, Transcriber object);

  static native byte[] listenerLanguage(long listener);

  static native void listenerCancel(long listener);

  static native long encoderCreate(long model);

  static native void encoderFree(long encoder);

  static native void encoderRun(long encoder, int[] ids);

  static native float[] encoderEmbedding(long encoder, int pooling, int width);

  static native float[] encoderMaskedLogits(long encoder, int place, int vocabSize);

  static native long adapterLoad(long model, byte[] path, float scale);

  static native void adapterFree(long adapter);

  static native long sessionCreate(long model, int context, int kv, int kvValues, int policy);

  static native void sessionFree(long session);

  /**
   * Numbers of the sampling that are NaN or -1: the default. keepSampling, keepBiases: the session's own stay. draft: 0: none.
   * reasoningTokens: -1: reasoning is text like any other; 0: no limit.
   */
  static native void setRequest(
      long session, boolean keepSampling, float temperature, int topK, float topP, float minP, float repeatPenalty,
      long seed, float presencePenalty, float frequencyPenalty, float typicalP, boolean keepBiases, int[] ids,
      float[] biases, byte[][] stops, int logprobs, byte[] head, boolean lookup, long draft, int grammarKind,
      byte[] grammar, int reasoningTokens);

  /** adapter: 0 for none. */
  static native void setAdapter(long session, long adapter);

  static native void setDuty(long session, float share);

  static native long dutyCreate();

  static native void dutyFree(long duty);

  static native void dutySetShare(long duty, float share);

  static native double dutyBusySeconds(long duty);

  /** user: a session, or a listener if `listens`. duty: 0 for none. */
  static native void useDuty(long user, boolean listens, long duty);

  static native void prompt(long session, int[] ids);

  /** parts: int[] or float[] each. */
  static native void promptParts(long session, Object[] parts, int width);

  static native long conversationCreate(long session);

  static native void conversationFree(long conversation);

  static native void conversationSet(long conversation, byte[] json);

  /**
   * Calls onToken of the session's object for each token, and onPrompt if asked to; returns a StopReason's ordinal.
   *
   * @param conversation whose messages are answered; 0: what is in the context goes on
   */
  static native int generate(
      long session, long conversation, int maxTokens, boolean ignoreStopTokens, boolean tellPrompt, Session object);

  static native void cancel(long session);

  static native void clearCancel(long session);

  static native float[] score(long session, int[] ids);

  static native float[] logits(long session, int vocabSize);

  static native void lens(
      long session, int first, int count, int[] layers, boolean logits, int width, int vocabSize, LensListener listener);

  static native void setTunedLens(long session, byte[] folder);

  static native Logprobs logprobs(long session);

  static native int[] ids(long session);

  static native void save(long session, byte[] path, byte[] note);

  static native byte[] restore(long session, byte[] path);

  static native void saveTo(long session, int descriptor, byte[] note);

  static native byte[] restoreFrom(long session, int descriptor);

  static native void reset(long session);

  static native GenerationStats stats(long session);

  static native byte[] profile(long session, int tokens, int repeat);
}
