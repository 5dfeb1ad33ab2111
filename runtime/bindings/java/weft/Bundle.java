package weft;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Locale;

/**
 * The libraries and the model within weft-VERSION.jar. A system loads only files, so they are copied to a folder that lasts
 * as long as the process.
 */
final class Bundle {
  private static final String[] FOLDERS = {"", "lib", "share", "share/weft"};
  private static final String[] FILES = {"lib/libweft.so.0", "lib/libweft_jni.so", "share/weft/pocket.gguf"};

  private Bundle() {}

  /** Loads the libraries. missing: thrown if the jar has none for this machine. */
  static void load(UnsatisfiedLinkError missing) {
    String machine = System.getProperty("os.name").toLowerCase(Locale.ROOT) + "-" + System.getProperty("os.arch");
    if (Bundle.class.getResource(machine + "/" + FILES[0]) == null) throw missing;
    try {
      Path folder = Files.createTempDirectory("weft-");
      for (String name : FOLDERS) keepUntilExit(Files.createDirectories(folder.resolve(name)));
      for (String name : FILES) {
        try (InputStream content = Bundle.class.getResourceAsStream(machine + "/" + name)) {
          Files.copy(content, folder.resolve(name));
        }
        keepUntilExit(folder.resolve(name));
      }
      System.load(folder.resolve(FILES[1]).toString());
    } catch (IOException error) {
      throw (UnsatisfiedLinkError) new UnsatisfiedLinkError("weft.jar: its libraries cannot be unpacked").initCause(error);
    }
  }

  /** They are deleted in the reverse order. */
  private static void keepUntilExit(Path path) {
    path.toFile().deleteOnExit();
  }
}
