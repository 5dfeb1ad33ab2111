import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import weft.*;

/** Shared code of the tests. */
class Fixture {
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
}
