package weft.demo;

import android.content.Context;
import android.net.Uri;
import android.os.Handler;
import android.os.Looper;
import android.os.ParcelFileDescriptor;
import java.io.File;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import weft.GenerateOptions;
import weft.Generation;
import weft.GenerationStats;
import weft.Message;
import weft.Model;
import weft.ModelOptions;
import weft.Session;
import weft.SessionOptions;
import weft.Weft;
import weft.WeftException;

/**
 * The conversation of the process, which outlives its activities. The main thread calls it; one worker thread owns model
 * and session, and computes.
 */
final class Chat {
  interface Watcher {
    void onChange();
  }

  interface Task {
    void run() throws Exception;
  }

  static Chat instance; // members that are not private are for tests; null stands for a process that has ended

  private final Context app;
  private final Store store;
  Handler main = new Handler(Looper.getMainLooper());
  final ExecutorService worker = Executors.newSingleThreadExecutor();
  final Dictation dictation = new Dictation(this);

  // Used on the main thread only.
  private final Store.Chat chat;
  private StringBuilder answer; // null: no answer is being generated
  private String status;
  private String stats = "";
  private boolean loaded; // true once the model is loaded
  private int tasks; // not yet finished by the worker
  private Watcher watcher;

  // Used on the worker only.
  Model model;
  private Session session;

  private volatile boolean stopped;

  static Chat of(Context context) {
    if (instance == null) instance = new Chat(context.getApplicationContext());
    return instance;
  }

  private Chat(Context app) {
    this.app = app;
    store = new Store(app.getFilesDir());
    chat = store.read();
    status = app.getString(R.string.no_model);
    Weft.setCacheFolder(new File(app.getCacheDir(), "weft").getPath()); // compiled shaders are kept there
    if (chat.document != null) load();
  }

  void watch(Watcher watcher) {
    this.watcher = watcher;
  }

  int size() {
    return chat.messages.size() + (answer == null ? 0 : 1);
  }

  Message message(int i) {
    return i < chat.messages.size() ? chat.messages.get(i) : Message.assistant(answer.toString());
  }

  boolean generates() {
    return answer != null;
  }

  /** True if a message can be sent and a setting changed. */
  boolean ready() {
    return loaded && tasks == 0;
  }

  String status() {
    return status;
  }

  String stats() {
    return stats;
  }

  String head() {
    return chat.head;
  }

  boolean polite() {
    return chat.polite;
  }

  /** Loads the model that the user has picked. The conversation goes on with it. */
  void load(Uri document, String name) {
    stop();
    chat.document = document.toString();
    chat.name = name;
    write();
    load();
  }

  /** Loads the Whisper model that the user has picked. */
  void loadSpeech(Uri document, String name) {
    dictation.cancel();
    chat.speech = document.toString();
    chat.speechName = name;
    write();
    dictation.load();
  }

  /** The Whisper model's document; null: none was chosen. */
  String speech() {
    return chat.speech;
  }

  String speechName() {
    return chat.speechName;
  }

  void send(String text) {
    chat.messages.add(Message.user(text));
    answer = new StringBuilder();
    stopped = false;
    write();
    List<Message> messages = new ArrayList<>(chat.messages);
    String name = chat.name;
    GenerateOptions options =
        new GenerateOptions()
            .head(chat.head)
            .promptProgress(
                (done, all) -> {
                  show(app.getString(R.string.reading, done, all));
                  return !stopped;
                });
    work(
        () -> {
          try {
            Generation generation = session.generate(messages, options, (id, piece) -> append(piece));
            String line = line(generation.stats());
            main.post(() -> stats = line);
            show(app.getString(R.string.on, name, model.info().device()));
          } finally {
            main.post(this::endAnswer);
          }
        });
  }

  /** Ends the answer; the text so far stays. */
  void stop() {
    stopped = true;
  }

  void setHead(String head) {
    chat.head = head;
    write();
  }

  /** Sets the policy. A session keeps its policy for life, so a new session takes over the state of the old one. */
  void setPolite(boolean polite) {
    chat.polite = polite;
    write();
    work(
        () -> {
          store.save(session);
          session.close();
          session = model.session(new SessionOptions().polite(polite));
          store.restore(session);
        });
  }

  /** Empties the conversation. */
  void clear() {
    stop();
    work(
        () -> {
          store.forget();
          if (session != null) session.reset();
          main.post(
              () -> {
                chat.messages.clear();
                stats = "";
                write();
              });
        });
  }

  /** Called when the application is not visible: stops using the device, because the process may end at any time. */
  void background() {
    stop();
    dictation.cancel();
    work(
        () -> {
          if (session != null) store.save(session);
        });
  }

  private void load() {
    Uri document = Uri.parse(chat.document);
    String name = chat.name;
    boolean polite = chat.polite;
    work(
        () -> {
          main.post(() -> loaded = false); // after what an earlier load has posted
          if (model != null) model.close(); // and its session
          model = null;
          session = null;
          model = open(document, name);
          session = model.session(new SessionOptions().polite(polite));
          String ready = app.getString(R.string.on, name, model.info().device());
          try {
            store.restore(session);
          } catch (WeftException | IOException error) {
            store.forget(); // another model's: the messages are read again
          }
          main.post(() -> loaded = true);
          show(ready);
        });
  }

  /** Loads a document; on the worker. */
  Model open(Uri document, String name) throws IOException {
    ModelOptions options =
        new ModelOptions()
            .progress(
                done -> {
                  show(text(R.string.loading, name, (int) (100 * done)));
                  return true;
                });
    try (ParcelFileDescriptor file = app.getContentResolver().openFileDescriptor(document, "r")) {
      if (file == null) throw new FileNotFoundException(document.toString());
      return Weft.load(file.getFd(), 0, 0, options);
    }
  }

  private boolean append(String piece) { // on the worker
    main.post(
        () -> {
          answer.append(piece);
          changed();
        });
    return !stopped;
  }

  private void endAnswer() {
    chat.messages.add(Message.assistant(answer.toString()));
    answer = null;
    write();
  }

  private String line(GenerationStats s) {
    double speed = s.decodeSeconds() > 0 ? s.decodedTokens() / s.decodeSeconds() : 0;
    return app.getString(
        R.string.stats, s.contextUsed(), s.promptTokens(), s.firstTokenSeconds(), speed,
        s.headTokens() > 0 ? s.headRows() / s.headTokens() : 0);
  }

  private void write() {
    byte[] json = Store.toJson(chat);
    work(() -> store.write(json));
  }

  String text(int id, Object... values) { // on any thread, as the next
    return app.getString(id, values);
  }

  void show(String text) {
    main.post(
        () -> {
          status = text;
          changed();
        });
  }

  private void changed() {
    if (watcher != null) watcher.onChange();
  }

  /** Runs a task on the worker, after those before it, and shows why it failed. */
  void work(Task task) {
    ++tasks;
    changed();
    worker.execute(
        () -> {
          try {
            task.run();
          } catch (WeftException error) {
            show(error.getMessage() + "\n" + error.hint());
          } catch (Exception error) {
            show(error.getMessage() == null ? error.toString() : error.getMessage());
          } finally {
            main.post(
                () -> {
                  --tasks;
                  changed();
                });
          }
        });
  }
}
