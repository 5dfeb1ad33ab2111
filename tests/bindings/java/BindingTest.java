import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import weft.*;

/**
 * The Java library as its users use it. BindingTest FOLDER [TEST ...]: a work folder with the models bert,
 * chatty.gguf, speech and thinks.gguf; without names all tests run. Each method of these classes that begins with "test" is one.
 */
public final class BindingTest {
  static final List<Fixture> TESTS = List.of(new ModelTests(), new SessionTests(), new BesideTests(), new SpeechTests(), new EndTests(), new MemoryTests());

  public static void main(String[] arguments) throws Exception {
    Fixture.folder = Path.of(arguments[0]);
    List<String> wanted = Arrays.asList(arguments).subList(1, arguments.length);
    int failed = 0;
    int ran = 0;
    Fixture.model = Weft.load(null, new ModelOptions());
    for (Fixture tests : TESTS) {
      Method[] methods = tests.getClass().getDeclaredMethods();
      Arrays.sort(methods, Comparator.comparing(Method::getName));
      for (Method method : methods) {
        if (!method.getName().startsWith("test") || !wanted.isEmpty() && !wanted.contains(method.getName())) continue;
        ++ran;
        try {
          method.invoke(tests);
          System.out.println("ok " + method.getName());
        } catch (InvocationTargetException error) {
          ++failed;
          System.out.println("FAILED " + method.getName());
          error.getCause().printStackTrace(System.out);
        }
      }
    }
    Fixture.model.close();
    System.out.println(ran + " tests, " + failed + " failed");
    System.exit(failed == 0 && ran > 0 ? 0 : 1);
  }
}
