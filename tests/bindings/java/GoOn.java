import java.util.Arrays;
import weft.*;

/** GoOn COUNT: restores a session from stdin, prints its note and the next ids on stderr, and saves it to stdout. */
public final class GoOn {
  public static void main(String[] arguments) {
    try (Model model = Weft.load(null, new ModelOptions()); Session session = model.session(new SessionOptions())) {
      System.err.println(session.restore(0));
      GenerateOptions options = new GenerateOptions().maxTokens(Integer.parseInt(arguments[0])).ignoreStopTokens(true);
      System.err.println(Arrays.toString(session.proceed(options, null).ids()));
      session.save(1, "from Java");
    }
  }
}
