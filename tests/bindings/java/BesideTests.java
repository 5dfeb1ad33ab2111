import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import weft.*;

/** Features beside ids and text: soft tokens, the lens, draft models, the duty. */
final class BesideTests extends Fixture {
  static List<Float> floats(float[] values) {
    List<Float> result = new ArrayList<>();
    for (float value : values) result.add(value);
    return result;
  }

  static void sleep(int milliseconds) {
    try {
      Thread.sleep(milliseconds);
    } catch (InterruptedException never) {
      throw new AssertionError(never);
    }
  }

  void testSoftTokens() {
    int width = model.info().width();
    try (Session session = session()) {
      int[] ids = model.tokenize("hello there, how are you");
      session.prompt(ids);
      List<Float> want = floats(session.logits());
      float[] rows = model.rows(ids);
      same(ids.length * width, rows.length);
      float[] soft = Arrays.copyOfRange(rows, 2 * width, 4 * width);
      session.prompt(List.of(
          PromptPart.ids(ids[0], ids[1]), PromptPart.rows(soft), PromptPart.ids(Arrays.copyOfRange(ids, 4, ids.length))));
      same(want, floats(session.logits()));
      same(Integer.MIN_VALUE + 1, session.ids()[3]); // WEFT_SOFT_TOKEN + 1
      int[] answer = session.proceed(greedy().maxTokens(4), null).ids();
      session.prompt(ids);
      same(list(answer), list(session.proceed(greedy().maxTokens(4), null).ids()));
      thrown(IllegalArgumentException.class, () -> session.prompt(List.of(PromptPart.rows(new float[width + 1]))));
      float[] wrong = new float[width];
      wrong[3] = Float.NaN;
      WeftException error = thrown(WeftException.class, () -> session.prompt(List.of(PromptPart.rows(wrong))));
      same("WEFT_INVALID_ARGUMENT", error.code());
      thrown(WeftException.class, () -> session.prompt(List.of()));
      thrown(NullPointerException.class, () -> session.prompt(Arrays.asList(PromptPart.ids(1), null)));
      thrown(WeftException.class, () -> model.rows(model.info().vocabSize()));
      same(0, model.rows().length);
    }
  }

  void testAdapters() {
    String path = folder.resolve("lora").toString();
    try (Model other = Weft.load(folder.resolve("chatty.gguf").toString(), new ModelOptions());
        Session session = other.session(new SessionOptions())) {
      int[] ids = other.tokenize("hello there");
      session.prompt(ids);
      List<Float> plain = floats(session.logits());
      Adapter adapter = other.adapter(path, 1);
      session.setAdapter(adapter);
      adapter.close(); // the session holds it
      adapter.close();
      List<Float> adapted = floats(session.logits());
      check(!adapted.equals(plain));
      thrown(IllegalStateException.class, () -> session.setAdapter(adapter));
      session.setAdapter(other.adapter(path, 0)); // closed by the model
      same(plain, floats(session.logits()));
      session.setAdapter(null);
      same(plain, floats(session.logits()));
      WeftException none = thrown(WeftException.class, () -> other.adapter("no such folder", 1));
      same("WEFT_NOT_FOUND", none.code());
    }
  }

  /** A lens whose translators add `bias` to every coordinate. */
  Path tunedLens(float bias) throws Exception {
    int layers = model.info().layers();
    int width = model.info().width();
    Path folder = Files.createTempDirectory(Fixture.folder, "lens");
    Files.writeString(folder.resolve("config.json"), "{\"d_model\":" + width + ",\"num_hidden_layers\":" + layers + "}");
    List<String> tensors = new ArrayList<>();
    int bytes = 0;
    for (int layer = 0; layer < layers; ++layer) {
      tensors.add(String.format(
          "\"%d.weight\":{\"dtype\":\"F32\",\"shape\":[%d,%d],\"data_offsets\":[%d,%d]}", layer, width, width, bytes,
          bytes += 4 * width * width));
      tensors.add(String.format(
          "\"%d.bias\":{\"dtype\":\"F32\",\"shape\":[%d],\"data_offsets\":[%d,%d]}", layer, width, bytes, bytes += 4 * width));
    }
    byte[] header = ("{" + String.join(",", tensors) + "}").getBytes(StandardCharsets.UTF_8);
    ByteBuffer file = ByteBuffer.allocate(8 + header.length + bytes).order(ByteOrder.LITTLE_ENDIAN);
    file.putLong(header.length).put(header);
    for (int layer = 0; layer < layers; ++layer) {
      file.position(file.position() + 4 * width * width);
      for (int i = 0; i < width; ++i) file.putFloat(bias);
    }
    Files.write(folder.resolve("params.safetensors"), file.array());
    return folder;
  }

  void testTunedLens() throws Exception {
    try (Session session = session()) {
      session.prompt(model.tokenize("hello there"));
      List<float[]> rows = new ArrayList<>();
      LensListener keep = (layer, position, hidden, values) -> rows.add(values);
      int[] layers = {1, model.info().layers()};
      String biased = tunedLens(5).toString();
      for (String folder : new String[] {null, tunedLens(0).toString(), biased, null}) {
        session.setTunedLens(folder);
        session.lens(0, 1, layers, true, keep);
      }
      same(8, rows.size());
      for (int layer = 0; layer < 2; ++layer)
        for (int lens = 1; lens < 4; ++lens) {
          double far = 0;
          for (int i = 0; i < rows.get(0).length; ++i)
            far = Math.max(far, Math.abs(rows.get(2 * lens + layer)[i] - rows.get(layer)[i]));
          check(lens == 2 && layer == 0 ? far > 0.1 : far < 1e-3, lens, layer, far);
        }
      WeftException none = thrown(WeftException.class, () -> session.setTunedLens("no such folder"));
      check(none.getMessage().contains("no such folder/config.json"), none.getMessage());
    }
  }

  void testLens() {
    int layers = model.info().layers();
    try (Session session = session()) {
      Runnable closing = session::close;
      session.prompt(model.tokenize("hello there"));
      int length = session.ids().length;
      List<List<Integer>> seen = new ArrayList<>();
      List<float[]> logits = new ArrayList<>();
      session.lens(0, 0, null, true, (layer, position, hidden, values) -> {
        seen.add(List.of(layer, position));
        same(model.info().width(), hidden.length);
        logits.add(values);
        return session.ids().length == length;
      });
      same((layers + 1) * length, seen.size());
      same(List.of(1, 0), seen.get(1));
      float[] last = logits.get(logits.size() - 1);
      float[] want = session.logits();
      for (int i = 0; i < want.length; ++i) check(Math.abs(last[i] - want[i]) < 1e-3, i, last[i], want[i]);
      seen.clear();
      int[] two = {layers, 1};
      session.lens(length - 1, 1, two, false, (layer, position, hidden, none) -> none == null && seen.add(List.of(layer, position)));
      same(List.of(List.of(layers, length - 1), List.of(1, length - 1)), seen);
      LensListener all = (layer, position, hidden, values) -> true;
      int[] beyond = {layers + 1};
      same("WEFT_INVALID_ARGUMENT", thrown(WeftException.class, () -> session.lens(0, 0, beyond, false, all)).code());
      same("WEFT_INVALID_ARGUMENT", thrown(WeftException.class, () -> session.lens(length, 1, null, false, all)).code());
      Error mine = thrown(Error.class, () -> session.lens(0, 0, null, true, (layer, position, hidden, values) -> {
        throw new Error("mine");
      }));
      same("mine", mine.getMessage());
      for (boolean byCancel : new boolean[] {false, true}) {
        int[] rows = {0};
        WeftException ended = thrown(WeftException.class, () -> session.lens(0, 0, null, false, (layer, position, hidden, values) -> {
          ++rows[0];
          if (byCancel) session.cancel();
          return byCancel;
        }));
        same("WEFT_CANCELLED", ended.code());
        same(1, rows[0]);
      }
      thrown(IllegalStateException.class, () -> session.lens(0, 0, null, false, (layer, position, hidden, values) -> {
        session.reset();
        return true;
      }));
      same(TIMER, timer(session)); // no cancel stayed
      session.lens(0, 1, new int[] {0}, false, (layer, position, hidden, values) -> {
        closing.run(); // freed when the call ends
        return true;
      });
      thrown(IllegalStateException.class, session::ids);
    }
  }

  void testDraft() {
    Model draft = Weft.load(null, new ModelOptions());
    try (Session session = session(); Model other = Weft.load(folder + "/chatty.gguf", new ModelOptions())) {
      same(TIMER, session.generate(ASK, greedy().draft(draft), null).text());
      WeftException error = thrown(WeftException.class, () -> session.generate(ASK, greedy().draft(other), null));
      same("WEFT_INVALID_ARGUMENT", error.code());
      same("draft", error.place());
      same(TIMER, session.generate(ASK, greedy().draft(draft), null).text());
      draft.close(); // the session has it
      same(TIMER, session.generate(ASK, greedy().draft(draft), null).text());
      same(TIMER, timer(session));
      thrown(IllegalStateException.class, () -> session.generate(ASK, greedy().draft(draft), null));
    }
  }

  void testDuty() throws Exception {
    try (Session session = model.session(new SessionOptions().polite(true))) {
      session.setDuty(0.5f);
      same(TIMER, timer(session));
      List<Long> told = new ArrayList<>();
      Thread resuming = new Thread(() -> {
        sleep(100);
        session.setDuty(1);
      });
      String slow = session.generate(ASK, greedy(), (id, text) -> {
        told.add(System.nanoTime());
        if (told.size() == 3) {
          session.setDuty(0); // until another thread says so
          resuming.start();
        }
        return true;
      }).text();
      same(TIMER, slow);
      resuming.join();
      check(told.get(3) - told.get(2) >= 100_000_000, told.get(3) - told.get(2));
      session.setDuty(0);
      Thread cancelling = new Thread(() -> {
        sleep(50);
        session.cancel();
      });
      cancelling.start();
      same(StopReason.CALLER, session.generate(ASK, greedy(), null).stop());
      cancelling.join();
      same("WEFT_INVALID_ARGUMENT", thrown(WeftException.class, () -> session.setDuty(1.5f)).code());
      session.setDuty(1);
      same(TIMER, timer(session));
    }
    Session session = session();
    same("create it with WEFT_POLICY_POLITE", thrown(WeftException.class, () -> session.setDuty(0.5f)).hint());
    session.close();
    thrown(IllegalStateException.class, () -> session.setDuty(1));
  }
}
