import java.util.Arrays;
import weft.*;

/** GoOn IN COUNT OUT: restores a session, prints its note and the next ids, and saves it again. */
public final class GoOn {
  public static void main(String[] arguments) {
    try (Model model = Weft.load(null, new ModelOptions()); Session session = model.session(new SessionOptions())) {
      System.out.println(session.restore(arguments[0]));
      GenerateOptions options = new GenerateOptions().maxTokens(Integer.parseInt(arguments[1])).ignoreStopTokens(true);
      System.out.println(Arrays.toString(session.proceed(options, null).ids()));
      session.save(arguments[2], "from Java");
    }
  }
}
