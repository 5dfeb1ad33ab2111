package weft;

import java.util.ArrayList;
import java.util.List;

/**
 * Writes down speech with a Whisper model, one recording at a time; weft_listener of weft/audio.h says more.
 *
 * <p>Calls of several threads take turns; cancel and close end a recording.
 */
public final class Transcriber implements ModelUser {
  private final Model model;
  private final Object state = new Object(); // never waited for with it held
  private long handle; // guarded by this and state: changed with both, read with either; 0: freed
  private boolean closed; // guarded by state, as the next
  private boolean hearing; // a call is in libweft
  private SegmentListener listener; // guarded by this

  Transcriber(Model model) {
    this.model = model;
    handle = model.create(this, Native::listenerCreate);
  }

  /**
   * Ends the recording, waits for the call that hears it and frees the transcriber. In a listener of that call it does not
   * wait: the transcriber is freed when the call ends. Twice is fine.
   */
  @Override
  public void close() {
    synchronized (state) {
      closed = true;
    }
    cancel();
    synchronized (this) {
      free();
    }
  }

  private void free() { // with this held
    synchronized (state) {
      if (handle == 0 || hearing) return;
      Native.listenerFree(handle);
      handle = 0;
    }
    model.release(this);
  }

  /**
   * Ends the recording: the call that hears it, or its next one, throws WEFT_CANCELLED. May be called from any thread, and
   * does not wait. Without a recording it does nothing.
   */
  public void cancel() {
    synchronized (state) {
      if (handle != 0) Native.listenerCancel(handle);
    }
  }

  /** The language of the recording, or of the last one, once it is known; "" before. */
  public synchronized String language() {
    return Native.text(Native.listenerLanguage(open()));
  }

  /** Has its work keep to a duty, in small parts; null: as fast as possible. */
  public synchronized void useDuty(Duty duty) {
    long idle = open();
    synchronized (state) {
      if (hearing) throw new IllegalStateException("the transcriber hears a recording");
    }
    if (duty == null) Native.useDuty(idle, true, 0);
    else duty.useFor(idle, true);
  }

  private long open() { // with this held
    synchronized (state) {
      if (closed) throw new IllegalStateException("the transcriber is closed");
    }
    return handle;
  }

  /** Begins a recording, and gives up the one before if it has not ended. */
  public synchronized void begin(TranscribeOptions o, SegmentListener listener) {
    long idle = open();
    if (listener == null) throw new NullPointerException("listener");
    synchronized (state) {
      if (hearing) throw new IllegalStateException("the transcriber hears a recording");
    }
    Native.listenerBegin(
        idle, Native.bytes(o.language), o.translate, Native.bytes(o.prompt), o.samplesPerSecond, o.temperatures,
        o.words);
    this.listener = listener;
  }

  /** Hears the next samples, of about -1 to 1. The listener is told of the 30 seconds that are complete with them. */
  public void feed(float... samples) {
    if (samples == null) throw new NullPointerException("samples");
    hear(samples);
  }

  /** Hears what is left, and ends the recording. */
  public void finish() {
    hear(null);
  }

  /** Hears a whole recording, and returns its segments. */
  public synchronized List<Segment> transcribe(float[] samples, TranscribeOptions options) {
    List<Segment> segments = new ArrayList<>();
    begin(options, segments::add);
    feed(samples);
    finish();
    return segments;
  }

  /** samples: null: the end. */
  private synchronized void hear(float[] samples) {
    long idle = open();
    synchronized (state) {
      if (hearing) throw new IllegalStateException("the transcriber hears a recording");
      hearing = true;
    }
    try {
      Native.listenerHear(idle, samples, this);
    } finally {
      boolean end;
      synchronized (state) {
        hearing = false;
        end = closed;
      }
      if (end) free();
    }
  }

  /** Called by transcriber_jni.cpp. False: the recording ends. */
  private boolean onSegment(
      double begin, double end, byte[] utf8, double meanLogprob, double noSpeech, byte[] words, double[] wordTimes) {
    return listener.onSegment(
        new Segment(begin, end, Native.text(utf8), meanLogprob, noSpeech, Native.text(words), wordTimes));
  }
}
