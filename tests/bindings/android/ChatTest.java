package weft.demo;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertNull;
import static org.junit.Assert.assertTrue;
import static org.robolectric.Shadows.shadowOf;

import android.Manifest;
import android.app.Activity;
import android.content.ContentProvider;
import android.content.ContentValues;
import android.content.Intent;
import android.content.pm.PackageManager;
import android.database.Cursor;
import android.database.MatrixCursor;
import android.graphics.Bitmap;
import android.graphics.Canvas;
import android.media.AudioRecord;
import android.net.Uri;
import android.os.Bundle;
import android.os.Handler;
import android.os.Looper;
import android.os.ParcelFileDescriptor;
import android.provider.OpenableColumns;
import android.view.View;
import android.widget.EditText;
import android.widget.ListView;
import android.widget.Spinner;
import android.widget.Switch;
import android.widget.TextView;
import java.io.File;
import java.io.FileNotFoundException;
import java.io.FileOutputStream;
import java.util.ArrayList;
import java.util.List;
import java.util.TreeSet;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.After;
import org.junit.Before;
import org.junit.Test;
import org.junit.runner.RunWith;
import org.robolectric.Robolectric;
import org.robolectric.RobolectricTestRunner;
import org.robolectric.RuntimeEnvironment;
import org.robolectric.android.controller.ActivityController;
import org.robolectric.annotation.Config;
import org.robolectric.annotation.GraphicsMode;
import org.robolectric.shadows.ShadowAudioRecord;
import org.robolectric.shadows.ShadowLooper;
import weft.Message;

/**
 * The demo app on Robolectric, with libweft and a real model. Properties: weft.model is a GGUF file, weft.speech a
 * ggml-speech.bin, weft.screens a folder for pictures.
 */
@RunWith(RobolectricTestRunner.class)
@Config(sdk = 34, qualifiers = "w360dp-h640dp-xhdpi")
@GraphicsMode(GraphicsMode.Mode.NATIVE)
public class ChatTest {
  private static final String TIMER = "set a timer for 10 minutes";
  private static final String TIMER_SET = "Timer set for 10 minutes.\n{\"action\":\"set_timer\",\"minutes\":10}";
  private static final String STORY = "tell me a long story about a robot";

  /** The system's document picker gives Uris of such a provider. */
  public static class Documents extends ContentProvider {
    @Override
    public ParcelFileDescriptor openFile(Uri uri, String mode) throws FileNotFoundException {
      assertEquals("r", mode);
      File file = new File(uri.getPath());
      return ParcelFileDescriptor.open(file, ParcelFileDescriptor.MODE_READ_ONLY);
    }

    @Override
    public Cursor query(Uri uri, String[] columns, String where, String[] values, String order) {
      MatrixCursor cursor = new MatrixCursor(new String[] {OpenableColumns.DISPLAY_NAME});
      cursor.addRow(new Object[] {uri.getLastPathSegment()});
      return cursor;
    }

    @Override
    public boolean onCreate() {
      return true;
    }

    @Override
    public String getType(Uri uri) {
      return "application/octet-stream";
    }

    @Override
    public Uri insert(Uri uri, ContentValues values) {
      throw new UnsupportedOperationException();
    }

    @Override
    public int delete(Uri uri, String where, String[] values) {
      throw new UnsupportedOperationException();
    }

    @Override
    public int update(Uri uri, ContentValues values, String where, String[] arguments) {
      throw new UnsupportedOperationException();
    }
  }

  /** Can keep the worker at most two messages ahead of until(), which is slow here: tests then see every token come. */
  private static final class InStep extends Handler {
    final Semaphore ahead = new Semaphore(Integer.MAX_VALUE / 2);
    int dispatched; // since until() has looked

    InStep() {
      super(Looper.getMainLooper());
    }

    @Override
    public boolean sendMessageAtTime(android.os.Message message, long time) {
      ahead.acquireUninterruptibly();
      return super.sendMessageAtTime(message, time);
    }

    @Override
    public void dispatchMessage(android.os.Message message) {
      ++dispatched;
      super.dispatchMessage(message);
    }
  }

  private ActivityController<ChatActivity> controller;
  private Handler first; // that the process began with
  private InStep second;

  @Before
  public void start() {
    Robolectric.setupContentProvider(Documents.class, "documents");
    startProcess(null);
  }

  private void startProcess(Bundle saved) {
    controller = Robolectric.buildActivity(ChatActivity.class).create(saved);
    first = Chat.instance.main;
    Chat.instance.main = second = new InStep();
    controller.start();
    if (saved != null) controller.restoreInstanceState(saved);
    controller.postCreate(saved).resume().visible();
  }

  @After
  public void end() throws Exception {
    endProcess();
  }

  /** Ends the process as the system does, without notice to the activity, but waits for the worker's task. */
  private void endProcess() throws Exception {
    Chat chat = Chat.instance;
    Chat.instance = null;
    chat.stop();
    chat.dictation.cancel();
    second.ahead.release(1_000_000);
    chat.worker.submit(
        () -> {
          if (chat.model != null) chat.model.close();
          if (chat.dictation.model != null) chat.dictation.model.close();
        });
    chat.worker.shutdown();
    assertTrue(chat.worker.awaitTermination(2, TimeUnit.MINUTES));
    first.removeCallbacksAndMessages(null);
    second.removeCallbacksAndMessages(null);
  }

  /** Runs the main thread's tasks one at a time, as they come. */
  private void until(BooleanSupplier condition) throws InterruptedException {
    long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(60);
    ShadowLooper main = shadowOf(Looper.getMainLooper());
    while (!condition.getAsBoolean()) {
      assertTrue("it takes too long: " + Chat.instance.status(), System.nanoTime() < end);
      if (main.isIdle()) Thread.sleep(2);
      else main.runOneTask();
      second.ahead.release(second.dispatched);
      second.dispatched = 0;
    }
  }

  private <T extends View> T view(int id) {
    return controller.get().findViewById(id);
  }

  private String text(int id) {
    return ((TextView) view(id)).getText().toString();
  }

  private boolean ready() {
    return view(R.id.send).isEnabled() && text(R.id.send).equals("Send");
  }

  /** The lines as the list shows them: "role: text". */
  private List<String> lines() {
    ListView list = view(R.id.lines);
    List<String> result = new ArrayList<>();
    for (int i = 0; i < list.getAdapter().getCount(); ++i) {
      TextView shown = list.getAdapter().getView(i, null, list).findViewById(R.id.text);
      result.add(((Message) list.getAdapter().getItem(i)).role() + ": " + shown.getText());
    }
    return result;
  }

  private String last() {
    List<String> lines = lines();
    return lines.get(lines.size() - 1);
  }

  /** The newest message, without views: these are slow. */
  private static String newest() {
    Chat chat = Chat.instance;
    return chat.size() == 0 ? "" : chat.message(chat.size() - 1).content();
  }

  private long stat(String pattern) {
    Matcher matcher = Pattern.compile(pattern).matcher(text(R.id.stats));
    assertTrue(text(R.id.stats), matcher.find());
    return Long.parseLong(matcher.group(1));
  }

  private long context() {
    return stat("^(\\d+) tokens in context");
  }

  private long computed() { // prompt tokens since the session was created
    return stat(", (\\d+) computed");
  }

  private void pick(String path) {
    pick(R.id.choose, path);
  }

  private void pick(int item, String path) {
    shadowOf(controller.get()).clickMenuItem(item);
    Intent asked = shadowOf(controller.get()).getNextStartedActivityForResult().intent;
    assertEquals(Intent.ACTION_OPEN_DOCUMENT, asked.getAction());
    assertTrue(asked.hasCategory(Intent.CATEGORY_OPENABLE));
    Intent answer = new Intent().setData(new Uri.Builder().scheme("content").authority("documents").path(path).build());
    shadowOf(controller.get()).receiveResult(asked, Activity.RESULT_OK, answer);
  }

  private void load() throws InterruptedException {
    pick(System.getProperty("weft.model"));
    until(this::ready);
  }

  private void type(String words) {
    ((EditText) view(R.id.draft)).setText(words);
  }

  private void send(String words) {
    type(words);
    view(R.id.send).performClick();
  }

  private void sendInStep(String words) {
    second.ahead.drainPermits();
    second.dispatched = 0;
    second.ahead.release(2);
    send(words);
  }

  private void ask(String words) throws InterruptedException {
    send(words);
    until(this::ready);
  }

  /** Waits until a part of an answer is there. */
  private void untilItTells() throws InterruptedException {
    until(() -> Chat.instance.generates() && newest().length() > 10);
    assertEquals("Stop", text(R.id.send));
    assertEquals("assistant: " + newest(), last());
  }

  private void picture(String name) throws Exception {
    for (int i = 0; i < 10; ++i) shadowOf(Looper.getMainLooper()).runOneTask(); // a frame is one of these
    View screen = controller.get().getWindow().getDecorView();
    Bitmap bitmap = Bitmap.createBitmap(screen.getWidth(), screen.getHeight(), Bitmap.Config.ARGB_8888);
    screen.draw(new Canvas(bitmap));
    TreeSet<Integer> colours = new TreeSet<>();
    for (int y = 0; y < bitmap.getHeight(); y += 4)
      for (int x = 0; x < bitmap.getWidth(); x += 4) colours.add(bitmap.getPixel(x, y));
    assertTrue(name + " has " + colours.size() + " colours", colours.size() > 20);
    try (FileOutputStream out = new FileOutputStream(new File(System.getProperty("weft.screens"), name + ".png"))) {
      assertTrue(bitmap.compress(Bitmap.CompressFormat.PNG, 100, out));
    }
  }

  @Test
  public void chats() throws Exception {
    assertEquals("Choose a model: a GGUF file on this device.", text(R.id.status));
    assertFalse(view(R.id.send).isEnabled());
    load();
    assertTrue(text(R.id.status), text(R.id.status).matches("pocket\\.gguf on .+"));
    sendInStep(TIMER);
    assertEquals("", text(R.id.draft));
    assertFalse(view(R.id.head).isEnabled());
    TreeSet<String> seen = new TreeSet<>();
    until(
        () -> {
          if (Chat.instance.generates()) seen.add(newest());
          return ready();
        });
    assertEquals(List.of("user: " + TIMER, "assistant: " + TIMER_SET), lines());
    assertTrue("the text came in " + seen.size() + " parts", seen.size() > 3);
    for (String part : seen) assertTrue(part, TIMER_SET.startsWith(part));
    assertTrue(
        text(R.id.stats),
        text(R.id.stats).matches("\\d+ tokens in context, \\d+ computed \\| first token after .* s \\| .* tokens/s \\| 8192 rows/token"));
    ask("what is 2 + 3?");
    assertEquals(4, lines().size());
    picture("android-chat");
  }

  @Test
  public void stops() throws Exception {
    load();
    ask(STORY);
    String whole = last();
    shadowOf(controller.get()).clickMenuItem(R.id.fresh);
    until(() -> ready() && lines().isEmpty());
    sendInStep(STORY);
    untilItTells();
    picture("android-stop");
    view(R.id.send).performClick();
    until(this::ready);
    String part = last();
    assertTrue(part + "\n" + whole, part.length() < whole.length() && whole.startsWith(part));
    ask(TIMER);
    assertEquals("assistant: " + TIMER_SET, last());
  }

  @Test
  public void rotates() throws Exception {
    load();
    sendInStep(STORY);
    untilItTells();
    String before = last();
    type("not sent yet");
    ChatActivity old = controller.get();
    RuntimeEnvironment.setQualifiers("+land");
    controller.recreate();
    assertTrue(old != controller.get() && old.isDestroyed());
    assertEquals("Stop", text(R.id.send)); // it goes on
    assertTrue(last().startsWith(before));
    until(this::ready);
    assertTrue(last().length() > before.length());
    assertEquals("not sent yet", text(R.id.draft));
    ask(TIMER);
    assertEquals("assistant: " + TIMER_SET, last());
    picture("android-land");
  }

  @Test
  public void survivesTheEndOfTheProcess() throws Exception {
    load();
    ((Spinner) view(R.id.head)).setSelection(1);
    until(() -> ready() && Chat.instance.head().equals("certified"));
    ask(STORY);
    ask(TIMER);
    long before = context();
    List<String> lines = lines();
    type("not sent yet");
    Bundle saved = new Bundle();
    controller.pause().stop().saveInstanceState(saved);
    endProcess();

    startProcess(saved);
    assertEquals(lines, lines());
    until(this::ready);
    assertEquals("not sent yet", text(R.id.draft));
    assertEquals("certified", ((Spinner) view(R.id.head)).getSelectedItem());
    ask("what is 2 + 3?");
    assertEquals(lines, lines().subList(0, 4));
    // Only the new message is computed.
    assertTrue(computed() + " of " + before, computed() < before / 2);
  }

  @Test
  public void survivesItInTheMidstOfAnAnswer() throws Exception {
    load();
    ask(TIMER);
    sendInStep(STORY);
    untilItTells();
    endProcess(); // nobody has saved what was computed, nor the part of the answer
    startProcess(null);
    until(this::ready);
    assertEquals(
        List.of("user: " + TIMER, "assistant: " + TIMER_SET, "user: " + STORY, "assistant: \u2026"), lines());
    ask(TIMER);
    assertEquals("assistant: " + TIMER_SET, last());
  }

  @Test
  public void restsInTheBackground() throws Exception {
    load();
    sendInStep(STORY);
    untilItTells();
    File session = new File(controller.get().getFilesDir(), "chat.session");
    assertFalse(session.exists());
    controller.pause().stop();
    until(() -> !Chat.instance.generates() && session.exists());
    controller.start().resume();
    until(this::ready);
    String part = last();
    ask(TIMER);
    assertEquals(part, lines().get(1));
    assertEquals("assistant: " + TIMER_SET, last());
  }

  @Test
  public void switchesHeadAndPolicy() throws Exception {
    load();
    ask(TIMER);
    long first = computed();
    ((Spinner) view(R.id.head)).setSelection(1);
    until(() -> ready() && Chat.instance.head().equals("certified"));
    ask(TIMER);
    long second = computed() - first;
    assertEquals("assistant: " + TIMER_SET, last());
    assertFalse(text(R.id.stats), text(R.id.stats).contains(" 8192 rows"));
    ((Switch) view(R.id.polite)).setChecked(true);
    assertFalse(view(R.id.polite).isEnabled());
    until(this::ready);
    ask(TIMER);
    assertEquals("assistant: " + TIMER_SET, last());
    assertEquals(second, computed()); // the new session has computed only the new message
    endProcess();
    startProcess(null);
    assertTrue(((Switch) view(R.id.polite)).isChecked());
    assertEquals("certified", ((Spinner) view(R.id.head)).getSelectedItem());
    until(this::ready);
    assertEquals(6, lines().size());
  }

  @Test
  public void saysWhyAModelCannotBeLoaded() throws Exception {
    load();
    ask(TIMER);
    List<String> lines = lines();
    File nothing = new File(System.getProperty("weft.screens"), "nothing.gguf");
    try (FileOutputStream out = new FileOutputStream(nothing)) {
      out.write(new byte[100]);
    }
    pick(nothing.getPath());
    until(() -> text(R.id.status).contains("GGUF"));
    assertFalse(view(R.id.send).isEnabled());
    assertTrue(nothing.delete());
    pick(nothing.getPath());
    until(() -> text(R.id.status).contains("No such file"));
    assertEquals(lines, lines());
    load();
    ask(TIMER); // the conversation goes on
    assertEquals("assistant: " + TIMER_SET, last());
    assertEquals(4, lines().size());
  }

  /** The microphone gives these samples at once, then waits. It fails at an empty piece. */
  private static final class Sound implements ShadowAudioRecord.AudioRecordSource {
    final BlockingQueue<short[]> pieces = new LinkedBlockingQueue<>();

    @Override
    public int readInShortArray(short[] data, int offset, int size, boolean blocks) {
      try {
        short[] piece = pieces.poll(20, TimeUnit.MILLISECONDS);
        if (piece == null) return 0;
        if (piece.length == 0) return AudioRecord.ERROR_DEAD_OBJECT;
        System.arraycopy(piece, 0, data, offset, piece.length);
        return piece.length;
      } catch (InterruptedException error) {
        throw new AssertionError(error);
      }
    }

    void whistle() {
      for (int i = 0; i < 10; ++i) {
        short[] piece = new short[1600];
        for (int j = 0; j < piece.length; ++j) piece[j] = (short) (8000 * Math.sin(1e-6 * Math.pow(1600 * i + j, 2)));
        pieces.add(piece);
      }
    }
  }

  private Sound microphone() {
    Sound sound = new Sound();
    ShadowAudioRecord.setSource(sound);
    return sound;
  }

  private void permit() {
    shadowOf(RuntimeEnvironment.getApplication()).grantPermissions(Manifest.permission.RECORD_AUDIO);
  }

  private void untilStatus(String begin) throws InterruptedException {
    until(() -> text(R.id.status).startsWith(begin));
  }

  private void loadSpeech() throws InterruptedException {
    pick(R.id.choose_speech, System.getProperty("weft.speech"));
    untilStatus("ggml-speech.bin on ");
  }

  private void speak(String from, String to) throws InterruptedException {
    assertEquals(from, text(R.id.speak));
    view(R.id.speak).performClick();
    until(() -> text(R.id.speak).equals(to));
  }

  /** Records a second. */
  private void record(Sound sound) throws InterruptedException {
    speak("Speak", "Done");
    untilStatus("Recording, for at most 30 seconds.");
    sound.whistle();
    until(sound.pieces::isEmpty);
  }

  @Test
  public void writesDownSpeech() throws Exception {
    Sound sound = microphone();
    view(R.id.speak).performClick();
    untilStatus("Choose a Whisper model first, in the menu: a ggml-*.bin file on this device.");
    loadSpeech();
    assertNull(shadowOf(controller.get()).getLastRequestedPermission());
    view(R.id.speak).performClick();
    String[] asked = shadowOf(controller.get()).getLastRequestedPermission().requestedPermissions;
    assertEquals(List.of(Manifest.permission.RECORD_AUDIO), List.of(asked));
    controller.get().onRequestPermissionsResult(ChatActivity.RECORD, asked, new int[] {PackageManager.PERMISSION_DENIED});
    untilStatus("The app may not use the microphone. The system's settings of this app can allow it.");
    assertEquals("Speak", text(R.id.speak));
    permit();
    controller.get().onRequestPermissionsResult(ChatActivity.RECORD, asked, new int[] {PackageManager.PERMISSION_GRANTED});
    until(() -> text(R.id.speak).equals("Done"));
    sound.whistle();
    until(sound.pieces::isEmpty);
    picture("android-speak");
    speak("Done", "Speak");
    String heard = text(R.id.draft);
    assertFalse(text(R.id.status), heard.isEmpty());

    // The same after a rotation within it, and in a new process, after what was written.
    type("well,");
    record(sound);
    controller.recreate();
    speak("Done", "Speak");
    assertEquals("well, " + heard, text(R.id.draft));
    endProcess();
    startProcess(null);
    type("");
    record(sound);
    speak("Done", "Speak");
    assertEquals(heard, text(R.id.draft));
  }

  @Test
  public void saysWhyNothingIsWrittenDown() throws Exception {
    permit();
    Sound sound = microphone();
    loadSpeech();
    record(sound);
    speak("Done", "Cancel");
    speak("Cancel", "Speak");
    untilStatus("Cancelled: nothing was written down.");
    record(sound);
    controller.pause().stop(); // the app leaves the screen
    controller.start().resume();
    until(() -> text(R.id.speak).equals("Speak"));
    untilStatus("Cancelled: nothing was written down.");
    speak("Speak", "Done");
    sound.pieces.add(new short[0]); // the microphone is gone: the recording ends
    untilStatus("No speech was heard.");
    until(() -> text(R.id.speak).equals("Speak"));
    pick(R.id.choose_speech, System.getProperty("weft.model"));
    until(() -> text(R.id.status).contains("hears nothing"));
    record(sound);
    speak("Done", "Speak");
    assertTrue(text(R.id.status), text(R.id.status).contains("hears nothing"));
    assertEquals("", text(R.id.draft));
  }

  @Test
  public void anAbandonedPickChangesNothing() throws Exception {
    shadowOf(controller.get()).clickMenuItem(R.id.choose);
    Intent asked = shadowOf(controller.get()).getNextStartedActivityForResult().intent;
    shadowOf(controller.get()).receiveResult(asked, Activity.RESULT_CANCELED, null);
    assertFalse(view(R.id.send).isEnabled());
    assertNull(new Store(controller.get().getFilesDir()).read().document);
  }
}
