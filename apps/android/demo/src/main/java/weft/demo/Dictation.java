package weft.demo;

import android.media.AudioFormat;
import android.media.AudioRecord;
import android.media.MediaRecorder;
import android.net.Uri;
import java.util.Arrays;
import weft.Model;
import weft.TranscribeOptions;
import weft.Transcriber;
import weft.WeftException;

/**
 * Writes down speech for the message box: records it, then hears it with a Whisper model. The main thread calls it; a thread of
 * its own records, and the chat's worker owns the model. Samples are not saved.
 */
final class Dictation {
  static final int RATE = 16000;
  static final int MOST_SAMPLES = 30 * RATE; // a window of Whisper

  private final Chat chat;

  // Used on the main thread only.
  private boolean records;
  private boolean hears;
  private String heard = "";

  // Used on the worker only, but for cancel().
  Model model;
  private volatile Transcriber transcriber;

  private volatile boolean ended; // the recording is complete
  private volatile boolean cancelled;

  Dictation(Chat chat) {
    this.chat = chat;
  }

  boolean records() {
    return records;
  }

  boolean hears() {
    return hears;
  }

  /** The text since the last call; "" for none. */
  String take() {
    String text = heard;
    heard = "";
    return text;
  }

  /** Begins a recording, ends it, or gives up writing it down. */
  void press() {
    if (records) ended = true;
    else if (hears) cancel();
    else record();
  }

  /** Gives up what is recorded or heard. */
  void cancel() {
    cancelled = true;
    ended = true;
    Transcriber now = transcriber;
    if (now != null) now.cancel();
  }

  /** Loads the Whisper model that the user has picked. */
  void load() {
    chat.work(
        () -> {
          close();
          open();
        });
  }

  /** Gives back the device's memory, until something is heard again. */
  void release() {
    cancel();
    chat.work(this::close);
  }

  private void close() { // on the worker, as the next
    if (model != null) model.close(); // and its transcriber
    model = null;
    transcriber = null;
  }

  private void open() throws Exception {
    if (transcriber != null) return;
    String name = chat.speechName();
    if (model == null) model = Engine.open(chat.app, Uri.parse(chat.speech()), done -> tellProgress(name, done));
    transcriber = model.transcriber(); // throws if the model is not a Whisper
    chat.show(chat.text(R.string.speech_ready, name));
  }

  private boolean tellProgress(String name, float done) {
    chat.show(chat.text(R.string.loading, name, (int) (100 * done)));
    return true;
  }

  private void record() {
    AudioRecord recorder =
        new AudioRecord(
            MediaRecorder.AudioSource.VOICE_RECOGNITION, RATE, AudioFormat.CHANNEL_IN_MONO,
            AudioFormat.ENCODING_PCM_16BIT, 2 * RATE); // of a second
    if (recorder.getState() == AudioRecord.STATE_INITIALIZED) recorder.startRecording();
    if (recorder.getRecordingState() != AudioRecord.RECORDSTATE_RECORDING) {
      recorder.release();
      chat.show(chat.text(R.string.no_microphone));
      return;
    }
    records = true;
    ended = false;
    cancelled = false;
    chat.show(chat.text(R.string.recording, MOST_SAMPLES / RATE));
    new Thread(() -> record(recorder), "microphone").start();
  }

  private void record(AudioRecord recorder) {
    float[] samples = new float[MOST_SAMPLES];
    short[] piece = new short[RATE / 10];
    int count = 0;
    while (!ended && count < samples.length) {
      int read = recorder.read(piece, 0, Math.min(piece.length, samples.length - count));
      if (read < 0) break; // for example, the microphone is gone
      for (int i = 0; i < read; ++i) samples[count++] = piece[i] / 32768f;
    }
    recorder.release();
    float[] recorded = Arrays.copyOf(samples, count);
    chat.main.post(() -> hear(recorded));
  }

  private void hear(float[] samples) {
    records = false;
    hears = true;
    chat.show(chat.text(R.string.hearing));
    chat.work(
        () -> {
          try {
            String text = transcribe(samples);
            if (cancelled) {
              chat.show(chat.text(R.string.cancelled));
              return;
            }
            if (text.isEmpty()) chat.show(chat.text(R.string.nothing_heard));
            else chat.show("");
            chat.main.post(() -> heard = text);
          } catch (WeftException error) {
            if (!error.code().equals("WEFT_CANCELLED")) throw error;
            chat.show(chat.text(R.string.cancelled));
          } finally {
            chat.main.post(
                () -> {
                  hears = false;
                  chat.changed();
                });
          }
        });
  }

  private String transcribe(float[] samples) throws Exception { // on the worker
    if (cancelled) return ""; // the app may be in the background: no model is loaded then
    open();
    StringBuilder text = new StringBuilder();
    transcriber.begin(
        new TranscribeOptions().samplesPerSecond(RATE),
        segment -> {
          text.append(segment.text());
          return !cancelled;
        });
    if (cancelled) return ""; // a cancel() before begin() did not reach the transcriber
    transcriber.feed(samples);
    transcriber.finish();
    return text.toString().trim();
  }
}
