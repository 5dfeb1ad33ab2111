import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import weft.*;

/**
 * The Java library as its users use it. BindingTest FOLDER [TEST ...]: a work folder with the models bert and
 * chatty.gguf; without names all tests run. Each method that begins with "test" is one.
 */
public final class BindingTest {
  static final String TIMER = "Timer set for 10 minutes.\n{\"action\":\"set_timer\",\"minutes\":10}";
  static final List<Message> ASK = List.of(Message.user("set a timer for 10 minutes"));
  static final List<Message> HELLO = List.of(Message.user("hello"));
  static Path folder;
  static Model model;

  interface Code {
    void run() throws Exception;
  }

  static void check(boolean holds, Object... values) {
    if (!holds) throw new AssertionError(Arrays.deepToString(values));
  }

  static void same(Object expected, Object got) {
    check(expected.equals(got), "expected", expected, "got", got);
  }

  static <T extends Throwable> T thrown(Class<T> type, Code code) {
    try {
      code.run();
    } catch (Throwable error) {
      check(type.isInstance(error), "expected", type, "got", error);
      return type.cast(error);
    }
    throw new AssertionError("no " + type);
  }

  static GenerateOptions greedy() {
    return new GenerateOptions().sampling(Sampling.greedy());
  }

  static Session session() {
    return model.session(new SessionOptions());
  }

  static String timer(Session session) {
    return session.generate(ASK, greedy(), null).text();
  }

  static List<Integer> list(int[] ids) {
    List<Integer> result = new ArrayList<>();
    for (int id : ids) result.add(id);
    return result;
  }

  /** Resident memory in bytes. */
  static long resident() throws Exception {
    System.gc();
    return Long.parseLong(Files.readString(Path.of("/proc/self/statm")).split(" ")[1]) * 4096;
  }

  void testModel() {
    ModelInfo info = model.info();
    same("llama", info.family());
    same(8192, info.vocabSize());
    same(256, info.width());
    same(-1, info.maskToken());
    check(info.tied() && info.hasChatTemplate() && !info.readsPromptApart());
    check(info.loadSeconds() > 0 && info.loadSeconds() < 600 && info.deviceBytes() > 5000000 && info.driver().length() > 0);
    check(Weft.devices().contains(info.device()) && Weft.version().startsWith("0."));
    check(model.describe().contains("\"tensors\""));
    check(model.measureBandwidth() > 0);
  }

  void testProbe() {
    SessionOptions session = new SessionOptions().context(100);
    String found = Weft.probe("", 0, new ModelOptions(), session);
    check(found.contains("\"fits\":true") && found.contains("\"context\":100") && found.contains("\"family\":\"llama\""));
    check(found.contains("\"vocab_bytes\":" + model.info().vocabBytes()));
    check(Weft.probe(null, 0, new ModelOptions(), session).contains("\"fits\":null"));
    check(Weft.probe(null, 1L << 60, new ModelOptions(), session).contains("\"fits\":false"));
    check(Weft.probe(folder + "/none", 0, new ModelOptions(), session).contains("WEFT_NOT_FOUND"));
    check(Weft.probe(null, 0, new ModelOptions().device("nothing is called this"), session).contains("WEFT_NO_DEVICE"));
    thrown(IllegalArgumentException.class, () -> Weft.probe("", -1, new ModelOptions(), session));
  }

  /** Java alone does not tell the descriptor of an open file: the system does. */
  static int descriptorOf(Path file) throws Exception {
    for (String name : new java.io.File("/proc/self/fd").list()) {
      Path link = Path.of("/proc/self/fd", name);
      if (Files.isSymbolicLink(link) && Files.readSymbolicLink(link).equals(file.toRealPath())) return Integer.parseInt(name);
    }
    throw new AssertionError("no descriptor of " + file);
  }

  void testOpenFile() throws Exception {
    byte[] gguf = Files.readAllBytes(folder.resolve("chatty.gguf"));
    Path file = folder.resolve("package");
    try (java.io.OutputStream out = Files.newOutputStream(file)) {
      out.write(new byte[4321]);
      out.write(gguf);
      out.write(new byte[7]);
    }
    Model inside;
    try (java.io.FileInputStream in = new java.io.FileInputStream(file.toFile())) {
      check(in.getFD().valid());
      int descriptor = descriptorOf(file);
      WeftException error = thrown(WeftException.class, () -> Weft.load(descriptor, 5, 1L << 40, new ModelOptions()));
      same("WEFT_INVALID_ARGUMENT", error.code());
      inside = Weft.load(descriptor, 4321, gguf.length, new ModelOptions());
    }
    try (inside; Model plain = Weft.load(folder + "/chatty.gguf", new ModelOptions())) {
      same(plain.info().tokenizerFingerprint(), inside.info().tokenizerFingerprint());
      same(plain.info().layerBytes(), inside.info().layerBytes());
      inside.describe(); // waits for all layers
    }
    thrown(IllegalArgumentException.class, () -> Weft.load(-1, 0, 0, new ModelOptions()));
  }

  void testMemory() throws Exception {
    byte[] gguf = Files.readAllBytes(folder.resolve("chatty.gguf"));
    java.nio.ByteBuffer direct = java.nio.ByteBuffer.allocateDirect(gguf.length + 5);
    direct.position(3);
    direct.put(gguf).flip().position(3); // what remains is the model
    Path file = folder.resolve("mapped");
    Files.write(file, gguf);
    java.nio.ByteBuffer mapped;
    try (java.nio.channels.FileChannel channel = java.nio.channels.FileChannel.open(file)) {
      mapped = channel.map(java.nio.channels.FileChannel.MapMode.READ_ONLY, 0, gguf.length);
    }
    List<Integer> want;
    try (Model plain = Weft.load(folder + "/chatty.gguf", new ModelOptions()); Session session = plain.session(new SessionOptions())) {
      want = list(session.generate(HELLO, greedy().maxTokens(8), null).ids());
    }
    for (java.nio.ByteBuffer memory : new java.nio.ByteBuffer[] {direct, mapped}) {
      try (Model inside = Weft.loadMemory(memory, new ModelOptions()); Session session = inside.session(new SessionOptions())) {
        System.gc();
        same(want, list(session.generate(HELLO, greedy().maxTokens(8), null).ids()));
      }
      check(memory.remaining() == gguf.length);
    }
    // A model that nobody has and nobody has closed may still be loading.
    java.nio.ByteBuffer lost = java.nio.ByteBuffer.allocateDirect(gguf.length);
    lost.put(gguf).flip();
    java.lang.ref.WeakReference<java.nio.ByteBuffer> kept = new java.lang.ref.WeakReference<>(lost);
    Weft.loadMemory(lost, new ModelOptions());
    lost = java.nio.ByteBuffer.allocateDirect(gguf.length);
    lost.put(gguf).flip();
    java.lang.ref.WeakReference<java.nio.ByteBuffer> freed = new java.lang.ref.WeakReference<>(lost);
    Weft.loadMemory(lost, new ModelOptions()).close();
    lost = null;
    System.gc();
    check(kept.get() != null && freed.get() == null, kept.get(), freed.get());
    thrown(IllegalArgumentException.class, () -> Weft.loadMemory(java.nio.ByteBuffer.wrap(gguf), new ModelOptions()));
    direct.limit(1000);
    WeftException error = thrown(WeftException.class, () -> Weft.loadMemory(direct, new ModelOptions()));
    same("WEFT_BAD_FILE", error.code());
    same("997 bytes of memory", error.place());
  }

  void testText() {
    String text = "Gr\u00fc\u00dfe, \u4e16\u754c! \ud83d\ude42"; // the last is two UTF-16 units, and four bytes
    same(text, model.detokenize(model.tokenize(text)));
    check(model.tokenize("a\0b").length > model.tokenize("a").length);
    String longText = "set a timer ".repeat(500);
    same(longText, model.detokenize(model.tokenize(longText)));
    same("", model.detokenize());
    same(9, model.applyChatTemplate(HELLO).length);
    check(model.detokenize(model.applyChatTemplate(List.of(Message.user(text)))).contains(text));
    thrown(IllegalArgumentException.class, () -> model.applyChatTemplate(List.of(Message.user("a\0b"))));
    // -Xcheck:jni complains if as many local references are kept.
    check(model.applyChatTemplate(Collections.nCopies(200, Message.user("a"))).length > 200);
    int[] digits = model.keep("digits");
    check(digits.length > model.keep(null).length);
    model.saveKeepList(digits, folder + "/digits.list");
    check(Arrays.equals(digits, model.keep(folder + "/digits.list")));
  }

  void testErrors() {
    WeftException error = thrown(WeftException.class, () -> Weft.load(folder + "/gr\u00fcn.gguf", new ModelOptions()));
    same("WEFT_NOT_FOUND", error.code());
    same(folder + "/gr\u00fcn.gguf", error.place());
    check(error.getMessage().contains(error.sentence()) && !error.sentence().isEmpty());
    try (Session session = session()) {
      error = thrown(WeftException.class, () -> session.generate(HELLO, greedy().head("nope"), null));
      same("WEFT_INVALID_ARGUMENT", error.code());
      check(error.hint().contains("keep:LIST"), error.hint());
      error = thrown(WeftException.class, () -> session.generate(HELLO, greedy().jsonSchema("{"), null));
      same("WEFT_BAD_FILE", error.code());
      thrown(WeftException.class, () -> session.score(new int[] {1}));
      thrown(WeftException.class, () -> session.prompt(new int[] {-1}));
      thrown(WeftException.class, () -> session.generate(HELLO, new GenerateOptions().sampling(new Sampling().topP(7)), null));
      same(TIMER, timer(session));
    }
    same("WEFT_UNSUPPORTED", thrown(WeftException.class, () -> model.encoder()).code());
    thrown(IllegalArgumentException.class, () -> new GenerateOptions().maxTokens(-1));
    thrown(NullPointerException.class, () -> model.tokenize(null));
  }

  void testProgress() {
    List<Float> seen = new ArrayList<>();
    Weft.load(null, new ModelOptions().progress(seen::add)).close();
    same(1f, seen.get(seen.size() - 1));
    WeftException error = thrown(WeftException.class, () -> Weft.load(null, new ModelOptions().progress(done -> false)));
    same("WEFT_CANCELLED", error.code());
    for (float when : new float[] {0, 1}) {
      ModelOptions options = new ModelOptions().progress(done -> {
        if (done >= when) throw new ArithmeticException("mine");
        return true;
      });
      same("mine", thrown(ArithmeticException.class, () -> Weft.load(null, options)).getMessage());
    }
  }

  void testChat() {
    try (Session session = session()) {
      StringBuilder streamed = new StringBuilder();
      List<Integer> ids = new ArrayList<>();
      Generation answer = session.generate(ASK, greedy(), (id, text) -> {
        ids.add(id);
        streamed.append(text);
        // The context's last id is the one that is told.
        int[] context = session.ids();
        same(id, context[context.length - 1]);
        return true;
      });
      same(TIMER, answer.text());
      same(TIMER, streamed.toString());
      same(ids, list(answer.ids()));
      same(StopReason.TOKEN, answer.stop());
      same(session.ids().length, answer.stats().contextUsed());
      same(ids.size() - 1L, answer.stats().decodedTokens());
      check(answer.stats().promptSeconds() > 0 && answer.stats().headRows() % 8192 == 0);
      List<Message> more = List.of(ASK.get(0), Message.assistant(TIMER), Message.user("hello"));
      check(session.generate(more, greedy(), null).text().startsWith("Hello"));
      check(session.stats().reusedTokens() > 20);
      session.reset();
      same(0, session.ids().length);
    }
  }

  void testOptions() {
    try (Session session = session()) {
      Generation cut = session.generate(ASK, greedy().maxTokens(3), null);
      same(StopReason.LENGTH, cut.stop());
      same(3, cut.ids().length);
      Generation rest = session.proceed(greedy(), null);
      same(TIMER, cut.text() + rest.text());
      List<Integer> ids = new ArrayList<>();
      Generation stopped = session.generate(ASK, greedy().stops(List.of("utes", "xyz")), (id, text) -> ids.add(id));
      same("Timer set for 10 min", stopped.text());
      same(StopReason.STRING, stopped.stop());
      same(TIMER, session.generate(ASK, greedy().stops(List.of("}xyz")), (id, text) -> ids.add(id)).text());
      check(ids.contains(-1), ids);
      same(StopReason.GRAMMAR, session.generate(ASK, greedy().regex("[0-9]{3}"), null).stop());
      String schema = "{\"type\":\"object\",\"properties\":{\"minutes\":{\"type\":\"integer\",\"minimum\":0,\"maximum\":99}},"
          + "\"required\":[\"minutes\"],\"additionalProperties\":false}";
      String json = session.generate(ASK, greedy().jsonSchema(schema).maxTokens(60), null).text();
      check(json.matches("\\{\\s*\"minutes\"\\s*:\\s*\\d+\\s*\\}"), json);
      check(session.generate(ASK, greedy().grammar("root ::= \"yes\" | \"no\""), null).text().matches("yes|no"));
      for (String head : new String[] {"certified", "sure", "fast:7", "certified+keep:ascii"})
        same(TIMER, session.generate(ASK, greedy().head(head), null).text());
      same(TIMER, session.generate(ASK, greedy().speculate(true), null).text());
      int first = session.generate(ASK, greedy().maxTokens(1), null).ids()[0];
      check(first != session.generate(ASK, greedy().maxTokens(1).logitBias(Map.of(first, -100f)), null).ids()[0]);
      Sampling wild = new Sampling().temperature(2).topK(0).topP(1).minP(0).seed(1);
      GenerateOptions drawn = new GenerateOptions().sampling(wild).maxTokens(12).ignoreStopTokens(true);
      String one = session.generate(HELLO, drawn, null).text();
      same(one, session.generate(HELLO, drawn, null).text());
      wild.seed(2);
      check(!one.equals(session.generate(HELLO, drawn, null).text()), one);
      session.generate(ASK, greedy().logprobs(3).maxTokens(4), (id, text) -> {
        Logprobs known = session.logprobs();
        same(3, known.ids().length);
        same(id, known.ids()[0]);
        same(known.chosen(), known.values()[0]);
        return true;
      });
      same(TIMER, timer(session)); // nothing stayed
    }
    try (Session session = model.session(new SessionOptions().context(16).kv(NumberType.Q8).polite(true))) {
      same(StopReason.CONTEXT, session.generate(model.tokenize("set a timer"), greedy().ignoreStopTokens(true), null).stop());
      same(16, session.ids().length);
      same("WEFT_CONTEXT_FULL", thrown(WeftException.class, () -> session.prompt(new int[40])).code());
    }
  }

  void testExceptionsOfListeners() {
    try (Session session = session()) {
      for (int after = 1; after < 4; ++after) {
        int wanted = after;
        List<Integer> ids = new ArrayList<>();
        // " set a" holds " set" back, which libweft tells of when it ends: the listener must not hear of it.
        Error error = thrown(Error.class, () -> session.generate(ASK, greedy().stops(List.of(" set a")), (id, text) -> {
          ids.add(id);
          if (ids.size() == wanted) throw new Error("mine");
          return true;
        }));
        same("mine", error.getMessage());
        same(wanted, ids.size());
        same(TIMER, timer(session));
      }
      IllegalStateException changed = thrown(IllegalStateException.class,
          () -> session.generate(ASK, greedy(), (id, text) -> session.generate(ASK, greedy(), null).ids().length > 0));
      check(changed.getMessage().contains("generates"));
      thrown(IllegalStateException.class, () -> session.generate(ASK, greedy(), (id, text) -> {
        session.reset();
        return true;
      }));
      List<String> heard = new ArrayList<>();
      same(StopReason.CALLER, session.generate(ASK, greedy(), (id, text) -> heard.add(text) && heard.size() < 3).stop());
      same(3, heard.size());
      same(TIMER, String.join("", heard) + session.proceed(greedy(), null).text());
    }
  }

  void testCancel() throws Exception {
    try (Session session = session()) {
      session.cancel(); // does nothing
      same(TIMER, timer(session));
      for (int i = 0; i < 40; ++i) { // up to the very end of a generation, and not into the next
        java.util.concurrent.atomic.AtomicBoolean go = new java.util.concurrent.atomic.AtomicBoolean(true);
        Thread thread = new Thread(() -> {
          while (go.get()) session.cancel();
        });
        thread.start();
        session.generate(ASK, greedy().maxTokens(1), null);
        go.set(false);
        thread.join();
        same(StopReason.LENGTH, session.generate(ASK, greedy().maxTokens(1), null).stop());
      }
      for (int delay = 0; delay < 20; ++delay) {
        int milliseconds = delay;
        AtomicReference<Thread> canceller = new AtomicReference<>();
        Thread thread = new Thread(() -> {
          try {
            Thread.sleep(milliseconds);
          } catch (InterruptedException never) {
            throw new AssertionError(never);
          }
          session.cancel();
        });
        thread.start();
        Generation generation = session.generate(HELLO, greedy().ignoreStopTokens(true), null);
        thread.join();
        check(generation.stop() == StopReason.CALLER || generation.stop() == StopReason.CONTEXT, generation.stop());
        same(TIMER, timer(session)); // what came too late does not end this one
      }
    }
  }

  void testCancelInThePrompt() throws Exception {
    int[] prompt = new int[480];
    Arrays.fill(prompt, 1000);
    int unfinished = 0;
    try (Session session = session()) {
      for (int delay = 0; delay < 40 && unfinished == 0; ++delay) {
        int milliseconds = delay * 2;
        session.reset();
        Thread thread = new Thread(() -> {
          try {
            Thread.sleep(milliseconds);
          } catch (InterruptedException never) {
            throw new AssertionError(never);
          }
          session.cancel();
        });
        thread.start();
        Generation generation = session.generate(prompt, greedy().maxTokens(1), null);
        thread.join();
        same(session.ids().length - prompt.length, generation.ids().length);
        if (session.ids().length == prompt.length) {
          same(StopReason.CALLER, generation.stop());
          ++unfinished;
        }
      }
      check(unfinished == 1, "no prompt was cancelled");
      same(TIMER, timer(session));
    }
  }

  void testPromptProgress() {
    int[] prompt = new int[480];
    Arrays.fill(prompt, 1000);
    List<Integer> want;
    List<int[]> seen = new ArrayList<>();
    GenerateOptions short3 = greedy().maxTokens(3).ignoreStopTokens(true);
    try (Session session = session()) {
      want = list(session.generate(prompt, short3, null).ids());
      session.reset();
      GenerateOptions told = greedy().maxTokens(3).ignoreStopTokens(true).promptProgress((done, all) -> seen.add(new int[] {done, all}));
      same(want, list(session.generate(prompt, told, null).ids()));
      check(seen.size() > 3 && seen.get(0)[0] == 0 && seen.get(seen.size() - 1)[0] == 480, seen.size());
      for (int[] pair : seen) same(480, pair[1]);
      int before = seen.size();
      session.proceed(short3, null); // the listener was for that call
      same(before, seen.size());

      session.reset();
      ArithmeticException error = thrown(ArithmeticException.class, () -> session.generate(prompt, greedy().promptProgress((done, all) -> {
        if (done >= 100) throw new ArithmeticException("enough");
        return true;
      }), null));
      same("enough", error.getMessage());
      check(Arrays.equals(prompt, session.ids()));
      seen.clear();
      same(want, list(session.proceed(told, null).ids())); // goes on where it ended
      check(seen.get(0)[1] <= 380, seen.get(0));

      for (boolean byCancel : new boolean[] {false, true}) {
        session.reset();
        Generation ended = session.generate(prompt, greedy().promptProgress((done, all) -> {
          if (byCancel) session.cancel();
          return byCancel || done < 100;
        }), null);
        same(StopReason.CALLER, ended.stop());
        same(0, ended.ids().length);
        same(want, list(session.proceed(short3, null).ids())); // nothing stays of the cancel
      }
    }
  }

  void testCloseWhileGenerating() throws Exception {
    for (int delay = 0; delay < 10; ++delay) {
      Session session = session();
      CountDownLatch begun = new CountDownLatch(1);
      AtomicReference<Object> result = new AtomicReference<>();
      Thread thread = new Thread(() -> {
        try {
          result.set(session.generate(HELLO, greedy().ignoreStopTokens(true), (id, text) -> {
            begun.countDown();
            return true;
          }).stop());
        } catch (Throwable error) {
          result.set(error);
        }
      });
      thread.start();
      if (delay % 2 == 0) begun.await();
      else Thread.sleep(delay);
      Thread other = new Thread(session::close);
      other.start();
      session.close();
      other.join();
      thread.join();
      Object got = result.get();
      check(got == StopReason.CALLER || got == StopReason.CONTEXT || got instanceof IllegalStateException, got);
      thrown(IllegalStateException.class, session::ids);
      thrown(IllegalStateException.class, () -> session.generate(HELLO, greedy(), null));
      session.close();
    }
    Session session = session();
    List<Integer> ids = new ArrayList<>();
    same(StopReason.CALLER, session.generate(ASK, greedy(), (id, text) -> {
      ids.add(id);
      session.close();
      session.close();
      return true;
    }).stop());
    same(1, ids.size());
    thrown(IllegalStateException.class, session::stats);
  }

  /** A listener that waits for the thread that closes. */
  void testCloseEndsAWait() throws Exception {
    Session session = session();
    CountDownLatch begun = new CountDownLatch(1);
    CountDownLatch go = new CountDownLatch(1);
    AtomicReference<Object> result = new AtomicReference<>();
    Thread thread = new Thread(() -> result.set(session.generate(ASK, greedy(), new TokenListener() {
      @Override
      public boolean onToken(int id, String text) {
        begun.countDown();
        try {
          go.await();
        } catch (InterruptedException never) {
          throw new AssertionError(never);
        }
        return true;
      }

      @Override
      public void onCancel() {
        go.countDown();
      }
    }).stop()));
    thread.start();
    begun.await();
    session.close();
    thread.join();
    same(StopReason.CALLER, result.get());
  }

  void testCloseModel() {
    Model closed = Weft.load(null, new ModelOptions());
    Session idle = closed.session(new SessionOptions());
    Session busy = closed.session(new SessionOptions());
    same(StopReason.CALLER, busy.generate(ASK, greedy(), (id, text) -> {
      closed.close();
      thrown(IllegalStateException.class, () -> closed.tokenize("a"));
      same(busy.ids().length, busy.stats().contextUsed()); // it is freed when it ends
      return true;
    }).stop());
    thrown(IllegalStateException.class, idle::ids);
    thrown(IllegalStateException.class, busy::ids);
    thrown(IllegalStateException.class, () -> closed.session(new SessionOptions()));
    thrown(IllegalStateException.class, closed::info);
    idle.close();
    closed.close();
  }

  void testThreads() throws Exception {
    AtomicInteger right = new AtomicInteger();
    List<Thread> threads = new ArrayList<>();
    for (int i = 0; i < 4; ++i) {
      Thread thread = new Thread(() -> {
        try (Session session = session()) {
          for (int turn = 0; turn < 3; ++turn) {
            session.reset();
            if (timer(session).equals(TIMER)) right.incrementAndGet();
          }
        }
      });
      thread.start();
      threads.add(thread);
    }
    for (Thread thread : threads) thread.join();
    same(12, right.get());
  }

  void testSaving() throws Exception {
    String path = folder + "/java.session";
    Sampling wild = new Sampling().temperature(1.5f).topK(0).seed(7);
    List<Integer> whole;
    try (Session session = session()) {
      session.generate(HELLO, new GenerateOptions().sampling(wild).maxTokens(6).ignoreStopTokens(true), null);
      session.save(path, "a note, \ud83d\ude42");
      whole = list(session.proceed(new GenerateOptions().sampling(wild).maxTokens(12).ignoreStopTokens(true), null).ids());
    }
    try (Session session = session()) {
      same("a note, \ud83d\ude42", session.restore(path));
      same(whole, list(session.proceed(new GenerateOptions().maxTokens(12).ignoreStopTokens(true), null).ids()));
      same(TIMER, timer(session));
      session.save(path, null);
      same("", session.restore(path));
      Files.writeString(Path.of(path), "no session");
      int[] before = session.ids();
      same("WEFT_BAD_FILE", thrown(WeftException.class, () -> session.restore(path)).code());
      same("WEFT_INVALID_ARGUMENT", thrown(WeftException.class, () -> session.restore(-1)).code());
      same("WEFT_INVALID_ARGUMENT", thrown(WeftException.class, () -> session.save(-1, "")).code());
      check(Arrays.equals(before, session.ids()));
    }
  }

  void testNumbers() {
    try (Session session = session()) {
      int[] ids = model.tokenize("set a timer for 10 minutes");
      session.prompt(ids);
      float[] logits = session.logits();
      same(8192, logits.length);
      int best = 0;
      for (int i = 0; i < logits.length; ++i) if (logits[i] > logits[best]) best = i;
      same(best, session.proceed(greedy().maxTokens(1), null).ids()[0]);
      float[] nll = session.score(ids);
      same(ids.length - 1, nll.length);
      session.prompt(Arrays.copyOf(ids, ids.length - 1));
      double sum = 0;
      logits = session.logits();
      for (float logit : logits) sum += Math.exp(logit);
      check(Math.abs(Math.log(sum) - logits[ids[ids.length - 1]] - nll[nll.length - 1]) < 1e-3);
      check(session.profile(1, 1).contains("\"stages\""));
    }
  }

  void testEncoder() {
    try (Model bert = Weft.load(folder + "/bert", new ModelOptions())) {
      Encoder encoder = bert.encoder();
      float[] one = encoder.embed("The cat sat.");
      same(48, one.length);
      double norm = 0;
      for (float x : one) norm += x * x;
      check(Math.abs(norm - 1) < 1e-4, norm);
      check(Arrays.equals(one, encoder.embed(bert.tokenize("The cat sat."), Pooling.MODEL)));
      check(!Arrays.equals(one, encoder.embed(bert.tokenize("The cat sat."), Pooling.CLS)));
      int[] ids = bert.tokenize("the [MASK] sat", true, true);
      same(bert.info().maskToken(), ids[2]);
      same(bert.info().vocabSize(), encoder.maskedLogits(ids, 2).length);
      thrown(WeftException.class, () -> encoder.maskedLogits(ids, ids.length));
      same("WEFT_UNSUPPORTED", thrown(WeftException.class, () -> bert.session(new SessionOptions())).code());
      encoder.close();
      encoder.close();
      thrown(IllegalStateException.class, () -> encoder.embed("a"));
    }
  }

  void testOtherModel() {
    ModelOptions options = new ModelOptions().type(NumberType.Q8);
    try (Model tiny = Weft.load(folder + "/chatty.gguf", options); Session session = tiny.session(new SessionOptions())) {
      same("q8", tiny.info().type());
      same(8, session.generate(HELLO, greedy().maxTokens(8), null).ids().length);
    }
  }

  static void checkFlat(String what, int first, int count, Runnable cycle) throws Exception {
    for (int i = 0; i < first; ++i) cycle.run();
    long before = resident();
    for (int i = 0; i < count; ++i) cycle.run();
    long after = resident();
    System.out.println("    " + count + " " + what + ": " + before / 1024 + " KiB before, " + after / 1024 + " KiB after");
    check(after - before < 24 << 20, what, before, after); // the heap breathes
  }

  /** The property "cycles" makes them more. */
  void testCyclesFreeMemory() throws Exception {
    int cycles = Integer.getInteger("cycles", 2000);
    SessionOptions options = new SessionOptions().context(64);
    Runnable cycle = () -> {
      try (Session session = model.session(options)) {
        session.prompt(new int[] {1, 2, 3});
      }
    };
    Runnable load = () -> Weft.load(null, new ModelOptions()).close();
    checkFlat("sessions", 200, cycles, cycle); // a session has 160 KiB of keys and values
    checkFlat("models", 5, cycles / 50, load); // 6 MiB each
    try (Session session = session()) {
      same(TIMER, timer(session));
    }
  }

  public static void main(String[] arguments) throws Exception {
    folder = Path.of(arguments[0]);
    List<String> wanted = Arrays.asList(arguments).subList(1, arguments.length);
    int failed = 0;
    int ran = 0;
    Method[] methods = BindingTest.class.getDeclaredMethods();
    Arrays.sort(methods, Comparator.comparing(Method::getName));
    model = Weft.load(null, new ModelOptions());
    for (Method method : methods) {
      if (!method.getName().startsWith("test") || !wanted.isEmpty() && !wanted.contains(method.getName())) continue;
      ++ran;
      try {
        method.invoke(new BindingTest());
        System.out.println("ok " + method.getName());
      } catch (InvocationTargetException error) {
        ++failed;
        System.out.println("FAILED " + method.getName());
        error.getCause().printStackTrace(System.out);
      }
    }
    model.close();
    System.out.println(ran + " tests, " + failed + " failed");
    System.exit(failed == 0 && ran > 0 ? 0 : 1);
  }
}
