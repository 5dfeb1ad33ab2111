package weft.demo;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertTrue;
import static org.robolectric.Shadows.shadowOf;

import android.app.Activity;
import android.app.AlertDialog;
import android.content.ContentProvider;
import android.content.ContentValues;
import android.content.Intent;
import android.database.Cursor;
import android.database.MatrixCursor;
import android.graphics.Bitmap;
import android.graphics.Canvas;
import android.net.Uri;
import android.os.Bundle;
import android.os.Handler;
import android.os.Looper;
import android.os.ParcelFileDescriptor;
import android.provider.OpenableColumns;
import android.view.View;
import android.widget.EditText;
import android.widget.ListView;
import android.widget.PopupMenu;
import android.widget.RadioButton;
import android.widget.RadioGroup;
import android.widget.Switch;
import android.widget.TextView;
import java.io.File;
import java.io.FileNotFoundException;
import java.io.FileOutputStream;
import java.util.ArrayList;
import java.util.List;
import java.util.TreeSet;
import java.util.concurrent.Future;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import org.junit.After;
import org.junit.Before;
import org.junit.runner.RunWith;
import org.robolectric.Robolectric;
import org.robolectric.RobolectricTestRunner;
import org.robolectric.android.controller.ActivityController;
import org.robolectric.annotation.Config;
import org.robolectric.annotation.GraphicsMode;
import org.robolectric.shadow.api.Shadow;
import org.robolectric.shadows.ShadowAlertDialog;
import org.robolectric.shadows.ShadowLooper;
import org.robolectric.shadows.ShadowPopupMenu;
import weft.Message;

/**
 * A process with the demo app on Robolectric, with libweft and a real model. Properties: weft.model is a GGUF file, weft.speech a
 * ggml-speech.bin, weft.screens a folder for pictures.
 */
@RunWith(RobolectricTestRunner.class)
@Config(sdk = 34, qualifiers = "w360dp-h640dp-xhdpi")
@GraphicsMode(GraphicsMode.Mode.NATIVE)
public abstract class AppTest {
  static final String TIMER = "set a timer for 10 minutes";
  static final String TIMER_SET = "Timer set for 10 minutes.\n{\"action\":\"set_timer\",\"minutes\":10}";
  static final String STORY = "tell me a long story about a robot";

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
      if (Looper.myLooper() != getLooper()) ahead.acquireUninterruptibly();
      return super.sendMessageAtTime(message, time);
    }

    @Override
    public void dispatchMessage(android.os.Message message) {
      ++dispatched;
      super.dispatchMessage(message);
    }
  }

  ActivityController<ChatActivity> controller;
  private Handler first; // that the process began with
  private InStep second;

  @Before
  public void start() {
    Robolectric.setupContentProvider(Documents.class, "documents");
    startProcess(null);
  }

  void startProcess(Bundle saved) {
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
  void endProcess() throws Exception {
    Chat chat = Chat.instance;
    Chat.instance = null;
    chat.app.unregisterComponentCallbacks(chat);
    second.ahead.release(1_000_000);
    chat.stop();
    chat.cancelLoad();
    chat.dictation.cancel();
    chat.worker.submit(
        () -> {
          chat.engine.close();
          if (chat.dictation.model != null) chat.dictation.model.close();
        });
    chat.worker.shutdown();
    assertTrue(chat.worker.awaitTermination(2, TimeUnit.MINUTES));
    first.removeCallbacksAndMessages(null);
    second.removeCallbacksAndMessages(null);
  }

  /** Runs the main thread's tasks one at a time, as they come. */
  void until(BooleanSupplier condition) throws InterruptedException {
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

  <T extends View> T view(int id) {
    return controller.get().findViewById(id);
  }

  String text(int id) {
    return ((TextView) view(id)).getText().toString();
  }

  boolean ready() {
    return view(R.id.send).isEnabled() && words(R.id.send).equals("Send") && Chat.instance.ready();
  }

  /** The description of a button that has an icon only. */
  String words(int id) {
    return view(id).getContentDescription().toString();
  }

  boolean isShown(int id) {
    return view(id).getVisibility() == View.VISIBLE;
  }

  /** Waits until the worker has done what it was asked for, and the main thread has what it said; twice, because that may ask again. */
  void untilIdle() throws Exception {
    for (int i = 0; i < 2; ++i) {
      Future<?> done = Chat.instance.worker.submit(() -> {});
      until(done::isDone);
      until(() -> shadowOf(Looper.getMainLooper()).isIdle());
    }
  }

  void leave() throws Exception {
    controller.pause().stop();
    untilIdle();
  }

  void comeBack() throws Exception {
    controller.restart().resume();
    until(this::ready);
  }

  void startAgain() throws Exception {
    endProcess();
    startProcess(null);
  }

  void menu(int item) {
    shadowOf(controller.get()).clickMenuItem(item);
  }

  /** Presses a row long, and takes from the menu that comes. */
  void take(int row, int item) {
    ListView list = view(R.id.lines);
    View line = list.getAdapter().getView(row, null, list);
    assertTrue(list.getOnItemLongClickListener().onItemLongClick(list, line, row, row));
    PopupMenu menu = ShadowPopupMenu.getLatestPopupMenu();
    assertTrue(menu.getMenu().findItem(item).isVisible());
    ((ShadowPopupMenu) Shadow.extract(menu)).getOnMenuItemClickListener().onMenuItemClick(menu.getMenu().findItem(item));
  }

  AlertDialog dialog(int item) {
    menu(item);
    return ShadowAlertDialog.getLatestAlertDialog();
  }

  void setPolite(boolean polite) {
    AlertDialog dialog = dialog(R.id.settings);
    ((Switch) dialog.findViewById(R.id.polite)).setChecked(polite);
    dialog.dismiss();
  }

  void setHead(String words) {
    AlertDialog dialog = dialog(R.id.settings);
    RadioGroup group = dialog.findViewById(R.id.heads);
    for (int i = 0; i < group.getChildCount(); ++i)
      if (((RadioButton) group.getChildAt(i)).getText().toString().startsWith(words)) group.check(group.getChildAt(i).getId());
    dialog.dismiss();
  }

  /** The lines as the list shows them: "role: text". */
  List<String> lines() {
    ListView list = view(R.id.lines);
    List<String> result = new ArrayList<>();
    for (int i = 0; i < list.getAdapter().getCount(); ++i) {
      TextView shown = list.getAdapter().getView(i, null, list).findViewById(R.id.text);
      result.add(((Message) list.getAdapter().getItem(i)).role() + ": " + shown.getText());
    }
    return result;
  }

  String last() {
    List<String> lines = lines();
    return lines.get(lines.size() - 1);
  }

  /** The newest message, without views: these are slow. */
  static String newest() {
    Chat chat = Chat.instance;
    return chat.size() == 0 ? "" : chat.message(chat.size() - 1).content();
  }

  static long context() {
    return Chat.instance.stats().contextUsed();
  }

  static long computed() { // prompt tokens since the session was created
    return Chat.instance.stats().promptTokens();
  }

  void pick(String path) {
    pick(R.id.choose, path);
  }

  void pick(int item, String path) {
    shadowOf(controller.get()).clickMenuItem(item);
    Intent asked = shadowOf(controller.get()).getNextStartedActivityForResult().intent;
    assertEquals(Intent.ACTION_OPEN_DOCUMENT, asked.getAction());
    assertTrue(asked.hasCategory(Intent.CATEGORY_OPENABLE));
    Intent answer = new Intent().setData(new Uri.Builder().scheme("content").authority("documents").path(path).build());
    shadowOf(controller.get()).receiveResult(asked, Activity.RESULT_OK, answer);
  }

  void load() throws InterruptedException {
    pick(System.getProperty("weft.model"));
    until(() -> Chat.instance.name().equals("pocket.gguf") && ready());
  }

  void type(String words) {
    ((EditText) view(R.id.draft)).setText(words);
  }

  void send(String words) {
    type(words);
    view(R.id.send).performClick();
  }

  /** From now on, the worker is at most two messages ahead. */
  void inStep() {
    second.ahead.drainPermits();
    second.dispatched = 0;
    second.ahead.release(2);
  }

  void sendInStep(String words) {
    inStep();
    send(words);
  }

  void ask(String words) throws InterruptedException {
    send(words);
    until(this::ready);
  }

  /** Waits until a part of an answer is there. */
  void untilItTells() throws InterruptedException {
    until(() -> Chat.instance.generates() && newest().length() > 10);
    assertEquals("Stop", words(R.id.send));
    assertEquals("assistant: " + newest(), last());
  }

  void picture(String name) throws Exception {
    picture(name, controller.get().getWindow().getDecorView());
  }

  void picture(String name, View screen) throws Exception {
    for (int i = 0; i < 10; ++i) shadowOf(Looper.getMainLooper()).runOneTask(); // a frame is one of these
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
}
