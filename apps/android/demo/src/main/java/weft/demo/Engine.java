package weft.demo;

import android.content.Context;
import android.net.Uri;
import android.os.ParcelFileDescriptor;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.util.List;
import weft.GenerateOptions;
import weft.GenerationStats;
import weft.Message;
import weft.Model;
import weft.ModelInfo;
import weft.ModelOptions;
import weft.ProgressListener;
import weft.Session;
import weft.SessionOptions;
import weft.TokenListener;
import weft.Weft;
import weft.WeftException;

/** The model and its session. The worker of {@link Chat} calls it; setShare() may be called from any thread. */
final class Engine {
  Model model; // null: none is loaded. Members that are not private are for tests
  private volatile Session session; // null: as the model
  volatile float share = 1;
  boolean polite; // the policy of the session, which keeps it for life
  private boolean unsaved; // the session has computed something that the store lacks

  /** Maps a document. Its provider may be any app's. */
  static Model open(Context context, Uri document, ProgressListener progress) throws IOException {
    try (ParcelFileDescriptor file = context.getContentResolver().openFileDescriptor(document, "r")) {
      if (file == null) throw new FileNotFoundException(document.toString());
      return Weft.load(file.getFd(), 0, 0, new ModelOptions().progress(progress));
    }
  }

  /** Loads a model in place of the one before, and goes on where the store is. */
  void load(Context context, Uri document, Store store, boolean politely, ProgressListener progress) throws IOException {
    close();
    model = open(context, document, progress);
    create(store, politely);
  }

  ModelInfo info() {
    return model.info();
  }

  /** Answers the last message. polite: lets the screen have the device between layers. */
  GenerationStats answer(List<Message> messages, GenerateOptions options, boolean politely, Store store, TokenListener listener) {
    boolean wanted = politely || share < 1; // only polite sessions can be slowed down
    if (session == null || polite != wanted) {
      try {
        save(store);
      } catch (WeftException error) {
        store.forget(); // for example, the disk is full: the messages are read again
      }
      if (session != null) session.close();
      session = null;
      create(store, wanted);
    }
    unsaved = true;
    return session.generate(messages, options, listener).stats();
  }

  private void create(Store store, boolean politely) {
    Session made = model.session(new SessionOptions().polite(politely));
    try {
      store.restore(made);
    } catch (WeftException error) {
      store.forget(); // of another model: the messages are read again
    }
    polite = politely;
    unsaved = false;
    session = made;
    setShare(share);
  }

  /** Limits how much of the time the device is busy: 1 for no limit. A session that is not polite keeps to it from its next answer on. */
  void setShare(float value) {
    share = value;
    Session now = session;
    if (now == null || !polite) return;
    try {
      now.setDuty(value);
    } catch (IllegalStateException closed) {
      // The next session takes it over.
    }
  }

  /** Saves what the store lacks, if there is something. */
  void save(Store store) {
    if (session == null || !unsaved) return;
    store.save(session);
    unsaved = false;
  }

  /** Empties the context. */
  void reset() {
    if (session != null) session.reset();
    unsaved = false;
  }

  /** Gives back the device's memory. */
  void close() {
    session = null;
    if (model != null) model.close(); // and its session
    model = null;
    unsaved = false;
  }
}
