package weft.demo;

import android.content.ComponentCallbacks2;
import android.content.ContentResolver;
import android.content.Context;
import android.content.Intent;
import android.content.res.Configuration;
import android.database.Cursor;
import android.net.Uri;
import android.os.Handler;
import android.os.Looper;
import android.provider.OpenableColumns;
import java.io.File;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import weft.GenerateOptions;
import weft.GenerationStats;
import weft.Message;
import weft.ModelInfo;
import weft.Sampling;
import weft.TokenListener;
import weft.Weft;

/**
 * The conversation of the process, which outlives its activities. The main thread calls it; one worker thread reads and
 * writes files and calls the library.
 */
final class Chat implements ComponentCallbacks2 {
  interface Watcher {
    void onChange();

    /** The last message has grown. */
    void onToken();
  }

  interface Task {
    void run() throws Exception;
  }

  enum Phase {
    STARTING, // what the process before has left is being read
    NO_MODEL, // none was chosen
    UNLOADED, // loading was cancelled or failed, or the memory was wanted
    LOADING,
    READY
  }

  static Chat instance; // members that are not private are for tests; null stands for a process that has ended

  final Context app;
  Handler main = new Handler(Looper.getMainLooper());
  final ExecutorService worker = Executors.newSingleThreadExecutor();
  final Engine engine = new Engine(); // used on the worker only
  final Dictation dictation = new Dictation(this);
  Store store; // used on the worker only

  // Used on the main thread only.
  private Store.Chat chat = new Store.Chat();
  private Phase phase = Phase.STARTING;
  private StringBuilder answer; // null: no answer is being generated
  private Message replaced; // the answer that is being answered again; null: none
  private String status = "";
  private int progress; // of loading, in percent
  private GenerationStats stats; // of the last answer; null: none yet
  private ModelInfo info; // null: no model is loaded
  private boolean visible;
  private boolean asleep; // the model was given back in the background, and is loaded again on return
  private boolean clears; // the conversation is emptied after this answer
  private boolean serves; // a service keeps the process while it answers
  private float share = 1; // of the time that the device may be busy
  private Watcher watcher;

  private volatile boolean stopped; // no more of this answer is wanted
  private volatile int load; // number of the load that is wanted

  static Chat of(Context context) {
    if (instance == null) instance = new Chat(context.getApplicationContext());
    return instance;
  }

  private Chat(Context app) {
    this.app = app;
    app.registerComponentCallbacks(this);
    Heat.watch(app, this::setShare);
    work(
        () -> {
          Weft.setCacheFolder(new File(app.getCacheDir(), "weft").getPath()); // compiled shaders are kept there
          store = new Store(app.getFilesDir());
          Store.Chat read = store.read();
          main.post(() -> begin(read));
        });
  }

  private void begin(Store.Chat read) {
    chat = read;
    phase = Phase.NO_MODEL;
    if (chat.document != null) load();
    changed();
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

  Phase phase() {
    return phase;
  }

  boolean generates() {
    return answer != null;
  }

  /** True if a message can be sent. */
  boolean ready() {
    return phase == Phase.READY && answer == null;
  }

  /** A sentence for the user; "": none. */
  String status() {
    return status;
  }

  int progress() {
    return progress;
  }

  String name() {
    return chat.name;
  }

  GenerationStats stats() {
    return stats;
  }

  ModelInfo info() {
    return info;
  }

  String head() {
    return chat.head;
  }

  boolean polite() {
    return chat.polite;
  }

  /** The Whisper model's document; null: none was chosen. */
  String speech() {
    return chat.speech;
  }

  String speechName() {
    return chat.speechName;
  }

  /** Loads the model that the user has picked. The conversation goes on with it. */
  void pick(Uri document) {
    stop();
    cancelLoad();
    look(
        document,
        name -> {
          String before = chat.document;
          chat.document = document.toString();
          chat.name = name;
          release(before);
          write();
          load();
        });
  }

  /** Loads the Whisper model that the user has picked. */
  void pickSpeech(Uri document) {
    dictation.cancel();
    look(
        document,
        name -> {
          String before = chat.speech;
          chat.speech = document.toString();
          chat.speechName = name;
          release(before);
          write();
          dictation.load();
        });
  }

  private interface Named {
    void accept(String name);
  }

  /** Asks the document's provider for its name, and the system to let the next process read it too. */
  private void look(Uri document, Named then) {
    work(
        () -> {
          ContentResolver resolver = app.getContentResolver();
          try {
            resolver.takePersistableUriPermission(document, Intent.FLAG_GRANT_READ_URI_PERMISSION);
          } catch (SecurityException ignored) {
            // Not every provider grants it: the user picks again then.
          }
          String name = document.getLastPathSegment();
          try (Cursor cursor = resolver.query(document, new String[] {OpenableColumns.DISPLAY_NAME}, null, null, null)) {
            if (cursor != null && cursor.moveToFirst() && !cursor.isNull(0)) name = cursor.getString(0);
          }
          String found = name;
          main.post(() -> then.accept(found));
        });
  }

  /** Gives back the right to read a document, if neither model is there: the system keeps few of these. */
  private void release(String document) {
    if (document == null || document.equals(chat.document) || document.equals(chat.speech)) return;
    work(
        () -> {
          try {
            app.getContentResolver()
                .releasePersistableUriPermission(Uri.parse(document), Intent.FLAG_GRANT_READ_URI_PERMISSION);
          } catch (SecurityException ignored) {
            // It was never granted.
          }
        });
  }

  /** Loads the chosen model. */
  void load() {
    Uri document = Uri.parse(chat.document);
    boolean polite = chat.polite;
    int mine = ++load;
    asleep = false;
    phase = Phase.LOADING;
    progress = 0;
    info = null;
    show("");
    work(
        () -> {
          if (mine != load) return;
          try {
            engine.load(app, document, store, polite, done -> tellProgress(mine, done));
            ModelInfo loaded = engine.info();
            main.post(() -> endLoad(mine, loaded));
          } catch (Exception error) {
            main.post(() -> endLoad(mine, null));
            if (mine == load) throw error; // else somebody cancelled it
          }
        });
  }

  private boolean tellProgress(int mine, float done) { // on the worker
    main.post(
        () -> {
          if (mine != load) return;
          progress = (int) (100 * done);
          changed();
        });
    return mine == load;
  }

  private void endLoad(int mine, ModelInfo loaded) {
    if (mine != load) return;
    info = loaded;
    phase = loaded == null ? Phase.UNLOADED : Phase.READY;
    changed();
  }

  /** Gives up loading. */
  void cancelLoad() {
    if (phase != Phase.LOADING) return;
    ++load;
    phase = Phase.UNLOADED;
    show(app.getString(R.string.load_cancelled));
  }

  void send(String text) {
    chat.messages.add(Message.user(text));
    answer(new Sampling());
  }

  /** Answers the last question once more, and in other words. */
  void again() {
    if (!ready() || chat.messages.isEmpty()) return;
    replaced = chat.messages.remove(chat.messages.size() - 1);
    answer(new Sampling().temperature(0.8f).topP(0.95f).seed(System.nanoTime()));
  }

  /** Takes back the last question with its answer, and returns it. */
  String edit() {
    int size = chat.messages.size();
    if (answer != null || size < 2) return "";
    String question = chat.messages.get(size - 2).content();
    chat.messages.subList(size - 2, size).clear();
    write();
    changed();
    return question;
  }

  private void answer(Sampling sampling) {
    answer = new StringBuilder();
    stopped = false;
    show("");
    write();
    serves = AnswerService.start(app);
    List<Message> messages = new ArrayList<>(chat.messages);
    boolean polite = chat.polite;
    GenerateOptions options = new GenerateOptions().head(chat.head).sampling(sampling).promptProgress(this::tellPrompt);
    work(
        () -> {
          try {
            GenerationStats done = engine.answer(messages, options, polite, store, new Tokens());
            main.post(() -> stats = done);
          } finally {
            main.post(this::endAnswer);
          }
        });
  }

  private boolean tellPrompt(int done, int all) { // on the worker
    show(app.getString(R.string.reading, 100L * done / all));
    return !stopped;
  }

  private final class Tokens implements TokenListener { // on the worker
    private boolean cleared; // the status says nothing of the prompt any more

    @Override
    public boolean onToken(int id, String piece) {
      main.post(
          () -> {
            if (answer == null) return;
            answer.append(piece);
            if (watcher != null) watcher.onToken();
          });
      if (!cleared) show("");
      cleared = true;
      return !stopped;
    }

    @Override
    public boolean onReasoning(String piece) {
      if (!cleared) show(app.getString(R.string.thinking));
      return !stopped;
    }
  }

  private void endAnswer() {
    // If nothing came, because the device was lost, the answer before is better than none.
    boolean keep = replaced != null && answer.length() == 0;
    chat.messages.add(keep ? replaced : Message.assistant(answer.toString()));
    replaced = null;
    answer = null;
    if (serves) AnswerService.stop();
    serves = false;
    if (clears) {
      clear();
      return;
    }
    write();
    if (!visible) save();
    changed();
  }

  /** Ends the answer; the text so far stays. */
  void stop() {
    stopped = true;
  }

  /** For the next answers. */
  void setHead(String head) {
    chat.head = head;
    write();
  }

  /** For the next answers. */
  void setPolite(boolean polite) {
    chat.polite = polite;
    write();
  }

  /** True the first time: the app may ask whether it may show notifications. */
  boolean asksToNotify() {
    if (chat.askedToNotify) return false;
    chat.askedToNotify = true;
    return true;
  }

  /** Empties the conversation; while it answers, after that has ended. */
  void clear() {
    stop();
    clears = answer != null;
    if (clears) return;
    chat.messages.clear();
    stats = null;
    write();
    work(
        () -> {
          store.forget();
          engine.reset();
        });
    show("");
    changed();
  }

  /** Limits how much of the time the device is busy, because the phone is warm: 1 for no limit. */
  private void setShare(float share) {
    if (share == this.share) return;
    this.share = share;
    engine.setShare(share);
    show(share < 1 ? app.getString(R.string.warm) : "");
  }

  /** Called when the application is visible again. */
  void foreground() {
    visible = true;
    if (asleep) load();
  }

  /** Called when the application is not visible. An answer goes on if a service could be started with it. */
  void background() {
    visible = false;
    if (!serves) stop();
    dictation.cancel();
    save();
  }

  private void save() { // if something has changed
    work(() -> engine.save(store));
  }

  /** The system wants memory. */
  @Override
  public void onTrimMemory(int level) {
    if (level < TRIM_MEMORY_BACKGROUND || visible || answer != null) return;
    dictation.release();
    if (phase != Phase.READY && phase != Phase.LOADING) return;
    ++load; // ends one that is running
    asleep = true;
    phase = Phase.UNLOADED;
    info = null;
    work(
        () -> {
          try {
            engine.save(store);
          } finally {
            engine.close();
          }
        });
  }

  @Override
  public void onLowMemory() {
    onTrimMemory(TRIM_MEMORY_COMPLETE);
  }

  @Override
  public void onConfigurationChanged(Configuration configuration) {}

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

  void changed() { // on the main thread
    if (watcher != null) watcher.onChange();
  }

  /** Runs a task on the worker, after those before it, and shows why it failed. */
  void work(Task task) {
    worker.execute(
        () -> {
          try {
            task.run();
          } catch (Exception error) {
            show(Complaint.of(app, error));
          }
        });
  }
}
