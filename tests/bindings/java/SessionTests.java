import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import weft.*;

/** Generation by a session with its options, and the statistics that it reports. */
final class SessionTests extends Fixture {
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

  void testReasoning() {
    try (Model thinks = Weft.load(folder.resolve("thinks.gguf").toString(), new ModelOptions());
        Session session = thinks.session(new SessionOptions())) {
      String schema = "{\"enum\": [1234, 5678]}";
      for (int budget : new int[] {1, 6}) {
        StringBuilder told = new StringBuilder();
        TokenListener listener = new TokenListener() {
          @Override
          public boolean onToken(int id, String text) {
            return true;
          }

          @Override
          public boolean onReasoning(String text) {
            told.append(text);
            return true;
          }
        };
        Generation answer = session.generate(HELLO, greedy().think(true).thinkTokens(budget).jsonSchema(schema), listener);
        check(answer.text().matches("1234|5678"), answer.text());
        same(told.toString(), answer.reasoning());
        check(!told.toString().isEmpty());
      }
      Generation quick = session.generate(HELLO, greedy().think(false).jsonSchema(schema), null);
      check(quick.text().matches("1234|5678") && quick.reasoning().isEmpty(), quick.text(), quick.reasoning());
      Generation cut = session.generate(HELLO, greedy().jsonSchema(schema).maxTokens(3), null);
      same("", cut.text());
      Generation rest = session.proceed(greedy().jsonSchema(schema).thinkTokens(5), null);
      check(rest.text().matches("1234|5678") && !rest.reasoning().isEmpty() && !cut.reasoning().isEmpty(), rest.text());
      String said = "root ::= \"<think>Oh.</think>Yes.\"";
      int[] ids = thinks.tokenize("x");
      Generation apart = session.generate(ids, greedy().think(true).grammar(said), null);
      same("Yes.", apart.text());
      same("Oh.", apart.reasoning());
      same("<think>Oh.</think>Yes.", session.generate(ids, greedy().grammar(said), null).text());
      TokenListener ends = new TokenListener() {
        @Override
        public boolean onToken(int id, String text) {
          return true;
        }

        @Override
        public boolean onReasoning(String text) {
          throw new ArithmeticException("mine");
        }
      };
      same("mine", thrown(ArithmeticException.class, () -> session.generate(HELLO, greedy(), ends)).getMessage());
      same("user: a\nassistant:<think>\n\n</think>\n\n", thinks.detokenize(thinks.applyChatTemplate(List.of(Message.user("a")), false)));
    }
  }

  void testTheOldestTurnsMakeRoom() {
    try (Session session = model.session(new SessionOptions().context(96))) {
      List<Message> all = new ArrayList<>();
      for (int i = 0; i < 8; ++i) {
        all.addAll(ASK);
        same(TIMER, session.generate(all, greedy(), null).text());
        all.add(Message.assistant(TIMER));
      }
      List<Message> quoted = List.of(Message.user("\"\\\n\t\u0001\u00e9\ud83d\ude00"));
      session.generate(quoted, greedy().maxTokens(1), null);
      check(model.detokenize(session.ids()).contains(quoted.get(0).content()), model.detokenize(session.ids()));
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
      same(0, stopped.stats().stopString());
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
      same(-1, session.stats().stopString());
    }
    try (Session session = model.session(new SessionOptions().context(16).kv(NumberType.Q8).kvValues(NumberType.Q4).polite(true))) {
      same(StopReason.CONTEXT, session.generate(model.tokenize("set a timer"), greedy().ignoreStopTokens(true), null).stop());
      same(16, session.ids().length);
      same("WEFT_CONTEXT_FULL", thrown(WeftException.class, () -> session.prompt(new int[40])).code());
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
}
