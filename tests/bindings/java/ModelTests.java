import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import weft.*;

/** Models, encoders, what is refused, and what needs no session. */
final class ModelTests extends Fixture {
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

  void testCacheFolder() throws Exception {
    Path folder = Files.createTempDirectory("weft-cache");
    Weft.setCacheFolder(folder + "/deeper");
    Weft.load(null, new ModelOptions()).close();
    Weft.setCacheFolder(null);
    try (java.util.stream.Stream<Path> files = Files.list(folder.resolve("deeper"))) {
      check(files.count() > 0);
    }
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
    same("a\0b\0", model.detokenize(model.tokenize("a\0b\0")));
    check(model.tokenize("a\0b").length > model.tokenize("a").length);
    thrown(IllegalArgumentException.class, () -> model.tokenize("half of a pair: \ud83d"));
    thrown(IllegalArgumentException.class, () -> model.applyChatTemplate(List.of(Message.user("\ude42"))));
    String longText = "set a timer ".repeat(500);
    same(longText, model.detokenize(model.tokenize(longText)));
    same("", model.detokenize());
    same(9, model.applyChatTemplate(HELLO).length);
    check(model.detokenize(model.applyChatTemplate(List.of(Message.user(text)))).contains(text));
    thrown(IllegalArgumentException.class, () -> model.applyChatTemplate(List.of(Message.user("a\0b"))));
    // -Xcheck:jni complains if as many local references are kept.
    check(model.applyChatTemplate(Collections.nCopies(200, Message.user("a"))).length > 200);
    int[] digits = model.keep("digits,bytes");
    check(digits.length > model.keep("digits").length);
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

  void testNullArrays() {
    int[] none = null;
    thrown(NullPointerException.class, () -> model.detokenize(none));
    thrown(NullPointerException.class, () -> model.rows(none));
    thrown(NullPointerException.class, () -> model.saveKeepList(none, folder + "/none.list"));
    try (Session session = session()) {
      thrown(NullPointerException.class, () -> session.prompt(none));
      thrown(NullPointerException.class, () -> session.score(none));
      thrown(NullPointerException.class, () -> session.generate(none, greedy(), null));
      same(TIMER, timer(session));
    }
    try (Model bert = Weft.load(folder + "/bert", new ModelOptions()); Encoder encoder = bert.encoder()) {
      thrown(NullPointerException.class, () -> encoder.embed(none, Pooling.CLS));
      thrown(NullPointerException.class, () -> encoder.maskedLogits(none, 0));
    }
  }

  void testRecover() {
    try (Model own = Weft.load(null, new ModelOptions()); Session session = own.session(new SessionOptions())) {
      same(TIMER, timer(session));
      own.recover(); // works on a device that was not lost, too
      same(TIMER, timer(session));
      thrown(WeftException.class, () -> session.generate(ASK, greedy(), (id, text) -> {
        own.recover();
        return true;
      }));
    }
    Model closed = Weft.load(null, new ModelOptions());
    closed.close();
    thrown(IllegalStateException.class, closed::recover);
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
      same(48, encoder.size());
      check(Arrays.equals(one, encoder.embed("The cat sat.", null)));
      same(7, encoder.embed(bert.tokenize("The cat sat."), Pooling.LAST, 7).length);
      thrown(IllegalArgumentException.class, () -> encoder.embed(new int[] {5}, Pooling.MEAN, 49));
      same("", bert.prompt(null));
      same("WEFT_NOT_FOUND", thrown(WeftException.class, () -> encoder.embed("a", "query")).code());
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
}
