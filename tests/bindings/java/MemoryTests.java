import java.nio.file.Files;
import java.nio.file.Path;
import weft.*;

/** Closing frees memory. */
final class MemoryTests extends Fixture {
  /** Resident memory in bytes. */
  static long resident() throws Exception {
    System.gc();
    return Long.parseLong(Files.readString(Path.of("/proc/self/statm")).split(" ")[1]) * 4096;
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
}
