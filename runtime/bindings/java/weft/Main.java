package weft;

import java.util.Arrays;
import java.util.Collections;

/** `java -jar weft-VERSION.jar [-m MODEL] MESSAGE ...` prints the answer to one message: a check of an installation. */
final class Main {
  private Main() {}

  public static void main(String[] words) {
    boolean named = words.length > 1 && words[0].equals("-m");
    String model = named ? words[1] : null;
    String message = String.join(" ", Arrays.asList(words).subList(named ? 2 : 0, words.length));
    if (message.isEmpty()) {
      System.err.println("usage: java -jar weft.jar [-m MODEL] MESSAGE ...");
      System.exit(2);
    }
    try (Model loaded = Weft.load(model, new ModelOptions()); Session session = loaded.session(new SessionOptions())) {
      session.generate(Collections.singletonList(Message.user(message)), new GenerateOptions(), (id, text) -> {
        System.out.print(text);
        System.out.flush();
        return true;
      });
      System.out.println();
    } catch (WeftException error) {
      System.err.println("weft: " + error.getMessage() + "\n" + error.hint());
      System.exit(1);
    }
  }
}
