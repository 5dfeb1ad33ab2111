import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicReference;
import weft.*;

/** Transcribers, with a tiny random model that hears windows of 1.2 s. */
final class SpeechTests extends Fixture {
  private static final float[] SAMPLES = new float[32000];
  private static final float[] LONG; // more than a window after the first segment

  static {
    for (int i = 0; i < SAMPLES.length; ++i) SAMPLES[i] = (float) (0.3 * Math.sin(1e-6 * i * i));
    LONG = Arrays.copyOf(SAMPLES, 2 * SAMPLES.length);
  }

  private static TranscribeOptions options() {
    return new TranscribeOptions().language("de").temperatures(0);
  }

  private static List<String> lines(List<Segment> segments) {
    List<String> result = new ArrayList<>();
    for (Segment one : segments) {
      check(0 <= one.begin() && one.begin() < one.end() && one.meanLogprob() < 0 && one.noSpeech() > 0 && one.noSpeech() < 1);
      result.add(one.begin() + " " + one.end() + one);
    }
    return result;
  }

  private static void feedAll(Transcriber transcriber) {
    for (int i = 0; i < SAMPLES.length; i += 1600) transcriber.feed(Arrays.copyOfRange(SAMPLES, i, i + 1600));
  }

  void testOneDuty() {
    try (Model whisper = Weft.load(folder + "/speech", new ModelOptions()); Transcriber transcriber = whisper.transcriber();
        Session session = session(); Duty duty = new Duty(0.5f)) {
      List<String> whole = lines(transcriber.transcribe(SAMPLES, options()));
      same(0.0, duty.busySeconds());
      session.useDuty(duty);
      same(TIMER, timer(session));
      double chatted = duty.busySeconds();
      check(chatted > 0);
      transcriber.useDuty(duty);
      same(whole, lines(transcriber.transcribe(SAMPLES, options())));
      double heard = duty.busySeconds();
      check(heard > chatted);
      duty.setShare(0); // until another thread says so
      Thread resuming = new Thread(() -> {
        BesideTests.sleep(50);
        duty.setShare(1);
      });
      resuming.start();
      same(whole, lines(transcriber.transcribe(SAMPLES, options())));
      duty.setShare(0.5f);
      transcriber.useDuty(null);
      session.useDuty(null);
      heard = duty.busySeconds();
      same(whole, lines(transcriber.transcribe(SAMPLES, options())));
      same(TIMER, timer(session));
      same(heard, duty.busySeconds());
      thrown(WeftException.class, () -> duty.setShare(2));
      thrown(WeftException.class, () -> new Duty(-1));
      Duty closed = new Duty(1);
      closed.close();
      closed.close();
      thrown(IllegalStateException.class, () -> closed.setShare(1));
      thrown(IllegalStateException.class, () -> session.useDuty(closed));
    }
  }

  void testTranscriber() {
    try (Model whisper = Weft.load(folder + "/speech", new ModelOptions()); Transcriber transcriber = whisper.transcriber()) {
      same("", transcriber.language());
      List<String> whole = lines(transcriber.transcribe(SAMPLES, options()));
      check(whole.size() > 1, whole);
      check(transcriber.transcribe(SAMPLES, options()).get(0).words().isEmpty());
      List<Segment> worded = transcriber.transcribe(SAMPLES, options().words(true));
      same(whole, lines(worded));
      StringBuilder words = new StringBuilder();
      StringBuilder text = new StringBuilder();
      for (Segment one : worded) {
        text.append(one);
        for (Segment.Word word : one.words()) {
          check(0 <= word.begin() && word.begin() <= word.end());
          words.append(word);
        }
      }
      same(text.toString().replace("\ufffd", ""), words.toString().replace("\ufffd", ""));
      same("de", transcriber.language());

      List<Segment> told = new ArrayList<>();
      transcriber.begin(options(), segment -> {
        same("de", transcriber.language());
        thrown(IllegalStateException.class, () -> transcriber.feed(0));
        return told.add(segment);
      });
      feedAll(transcriber);
      check(told.size() > 0); // while more come
      transcriber.finish();
      same(whole, lines(told));

      thrown(WeftException.class, () -> transcriber.feed(0)); // nothing has begun
      thrown(WeftException.class, () -> transcriber.transcribe(SAMPLES, options().language("xx")));
      thrown(WeftException.class, () -> transcriber.transcribe(SAMPLES, options().samplesPerSecond(10)));
      thrown(WeftException.class, () -> transcriber.transcribe(SAMPLES, options().temperatures(3)));
      thrown(IllegalArgumentException.class, () -> options().samplesPerSecond(-1));
      thrown(IllegalArgumentException.class, () -> transcriber.transcribe(SAMPLES, options().prompt("a\0b")));
      thrown(NullPointerException.class, () -> transcriber.begin(options(), null));
      check(!whole.equals(lines(transcriber.transcribe(SAMPLES, options().prompt("abc")))));
      check(!whole.equals(lines(transcriber.transcribe(SAMPLES, options().samplesPerSecond(22050)))));
      same(List.of(), transcriber.transcribe(new float[0], options().translate(true)));
    }
    same("WEFT_UNSUPPORTED", thrown(WeftException.class, () -> model.transcriber()).code());
  }

  void testTranscriberEnds() throws Exception {
    Model whisper = Weft.load(folder + "/speech", new ModelOptions());
    Transcriber transcriber = whisper.transcriber();
    List<String> whole = lines(transcriber.transcribe(SAMPLES, options()));
    int[] told = new int[1];
    SegmentListener count = segment -> ++told[0] > 0;
    // By the listener's result, its exception, and from another thread while it is called.
    transcriber.begin(options(), segment -> ++told[0] < 2);
    same("WEFT_CANCELLED", thrown(WeftException.class, () -> transcriber.feed(LONG)).code());
    same(2, told[0]);
    transcriber.begin(options(), segment -> {
      throw new ArithmeticException("mine");
    });
    same("mine", thrown(ArithmeticException.class, () -> transcriber.feed(LONG)).getMessage());
    thrown(WeftException.class, () -> transcriber.feed(LONG));
    transcriber.begin(options(), segment -> {
      Thread thread = new Thread(transcriber::cancel);
      thread.start();
      try {
        thread.join();
      } catch (InterruptedException never) {
        throw new AssertionError(never);
      }
      return true;
    });
    same("WEFT_CANCELLED", thrown(WeftException.class, () -> transcriber.feed(LONG)).code());
    transcriber.cancel(); // nothing is heard: it does nothing
    same(whole, lines(transcriber.transcribe(SAMPLES, options())));
    transcriber.begin(options(), count);
    transcriber.cancel();
    same("WEFT_CANCELLED", thrown(WeftException.class, () -> transcriber.feed(LONG)).code());

    // Closed by its listener, from another thread, and with its model.
    transcriber.begin(options(), segment -> {
      transcriber.close();
      transcriber.close();
      return true;
    });
    same("WEFT_CANCELLED", thrown(WeftException.class, () -> transcriber.feed(LONG)).code());
    thrown(IllegalStateException.class, transcriber::language);
    Transcriber other = whisper.transcriber();
    CountDownLatch begun = new CountDownLatch(1);
    AtomicReference<Throwable> got = new AtomicReference<>();
    Thread thread = new Thread(() -> got.set(thrown(Throwable.class, () -> {
      other.begin(options(), segment -> {
        begun.countDown();
        return true;
      });
      for (;;) feedAll(other);
    })));
    thread.start();
    begun.await();
    whisper.close();
    thread.join();
    check(got.get() instanceof WeftException || got.get() instanceof IllegalStateException, got.get());
    thrown(IllegalStateException.class, () -> other.feed(0));
  }
}
