package weft.demo;

import android.Manifest;
import android.app.Activity;
import android.content.ClipData;
import android.content.ClipboardManager;
import android.content.Intent;
import android.content.pm.PackageManager;
import android.net.Uri;
import android.os.Build;
import android.os.Bundle;
import android.view.Menu;
import android.view.MenuItem;
import android.view.View;
import android.widget.Button;
import android.widget.EditText;
import android.widget.ImageButton;
import android.widget.ListView;
import android.widget.PopupMenu;
import android.widget.ProgressBar;
import android.widget.TextView;
import android.widget.Toolbar;

/** Shows the process's {@link Chat}, and keeps nothing itself but the text that is being written. */
public final class ChatActivity extends Activity implements Chat.Watcher {
  static final int PICK = 1;
  static final int PICK_SPEECH = 2;
  static final int RECORD = 3;
  static final int NOTIFY = 4;

  private Chat chat;
  private Lines lines;
  private int shown = -1; // messages in the list
  private Toolbar bar;
  private ProgressBar progress;
  private TextView status;
  private ListView list;
  private View empty;
  private EditText draft;
  private ImageButton speak;
  private ImageButton send;

  @Override
  protected void onCreate(Bundle saved) {
    super.onCreate(saved);
    setContentView(R.layout.chat);
    Edges.use(this, findViewById(R.id.root));
    chat = Chat.of(this);
    bar = findViewById(R.id.bar);
    progress = findViewById(R.id.progress);
    status = findViewById(R.id.status);
    list = findViewById(R.id.lines);
    empty = findViewById(R.id.empty);
    draft = findViewById(R.id.draft);
    speak = findViewById(R.id.speak);
    send = findViewById(R.id.send);
    setActionBar(bar);
    lines = new Lines(chat, list);
    list.setOnItemLongClickListener(
        (parent, row, i, id) -> {
          offer(row, i);
          return true;
        });
    findViewById(R.id.empty_choose).setOnClickListener(view -> pick(PICK));
    speak.setOnClickListener(view -> speak());
    send.setOnClickListener(view -> press());
  }

  @Override
  protected void onStart() {
    super.onStart();
    chat.watch(this);
    chat.foreground();
    onChange();
  }

  @Override
  protected void onStop() {
    chat.watch(null);
    if (!isChangingConfigurations()) chat.background();
    super.onStop();
  }

  @Override
  public boolean onCreateOptionsMenu(Menu menu) {
    getMenuInflater().inflate(R.menu.menu, menu);
    return true;
  }

  @Override
  public boolean onOptionsItemSelected(MenuItem item) {
    int id = item.getItemId();
    if (id == R.id.fresh) chat.clear();
    else if (id == R.id.choose) pick(PICK);
    else if (id == R.id.choose_speech) pick(PICK_SPEECH);
    else if (id == R.id.settings) Dialogs.settings(this, chat);
    else if (id == R.id.details) Dialogs.details(this, chat);
    else return super.onOptionsItemSelected(item);
    return true;
  }

  private void pick(int request) {
    // Models' files have no MIME type of their own.
    Intent pick = new Intent(Intent.ACTION_OPEN_DOCUMENT).addCategory(Intent.CATEGORY_OPENABLE).setType("*/*");
    startActivityForResult(pick, request);
  }

  @Override
  protected void onActivityResult(int request, int result, Intent data) {
    if ((request != PICK && request != PICK_SPEECH) || result != RESULT_OK || data == null || data.getData() == null) return;
    Uri document = data.getData();
    if (request == PICK) chat.pick(document);
    else chat.pickSpeech(document);
  }

  /** Asks for the microphone only here, and only if there is a model that hears. */
  private void speak() {
    boolean granted = checkSelfPermission(Manifest.permission.RECORD_AUDIO) == PackageManager.PERMISSION_GRANTED;
    if (chat.speech() == null) chat.show(getString(R.string.no_speech_model));
    else if (granted || chat.dictation.records() || chat.dictation.hears()) chat.dictation.press();
    else requestPermissions(new String[] {Manifest.permission.RECORD_AUDIO}, RECORD);
  }

  @Override
  public void onRequestPermissionsResult(int request, String[] permissions, int[] results) {
    if (request != RECORD) return; // without notifications, answers go on all the same
    if (results.length == 1 && results[0] == PackageManager.PERMISSION_GRANTED) chat.dictation.press();
    else chat.show(getString(R.string.no_permission));
  }

  /** Sends the draft; or ends or begins what the button shows. */
  private void press() {
    if (chat.generates()) {
      chat.stop();
    } else if (chat.phase() == Chat.Phase.LOADING) {
      chat.cancelLoad();
    } else if (chat.phase() == Chat.Phase.UNLOADED) {
      chat.load();
    } else if (chat.ready()) {
      String text = draft.getText().toString().trim();
      if (text.isEmpty()) return;
      draft.setText("");
      chat.send(text);
      lines.toEnd();
      askToNotify();
    }
  }

  private void askToNotify() {
    if (Build.VERSION.SDK_INT < Build.VERSION_CODES.TIRAMISU) return;
    if (checkSelfPermission(Manifest.permission.POST_NOTIFICATIONS) == PackageManager.PERMISSION_GRANTED) return;
    if (chat.asksToNotify()) requestPermissions(new String[] {Manifest.permission.POST_NOTIFICATIONS}, NOTIFY);
  }

  /** Shows a menu with the actions for a message. */
  private void offer(View row, int i) {
    boolean last = i >= chat.size() - 2 && chat.ready();
    boolean answer = chat.message(i).role().equals("assistant");
    PopupMenu menu = new PopupMenu(this, row.findViewById(R.id.text));
    menu.getMenuInflater().inflate(R.menu.message, menu.getMenu());
    menu.getMenu().findItem(R.id.again).setVisible(last && answer);
    menu.getMenu().findItem(R.id.edit).setVisible(last && !answer);
    String content = chat.message(i).content();
    menu.setOnMenuItemClickListener(item -> act(item.getItemId(), content));
    menu.show();
  }

  private boolean act(int id, String content) {
    if (id == R.id.again) {
      chat.again();
    } else if (id == R.id.edit) {
      draft.setText(chat.edit());
      draft.setSelection(draft.length());
    } else {
      getSystemService(ClipboardManager.class).setPrimaryClip(ClipData.newPlainText(getString(R.string.app), content));
    }
    return true;
  }

  @Override
  public void onChange() {
    Chat.Phase phase = chat.phase();
    boolean busy = chat.generates() || phase == Chat.Phase.LOADING;
    bar.setSubtitle(chat.name());
    String said = phase == Chat.Phase.LOADING ? getString(R.string.loading, chat.name(), chat.progress()) : chat.status();
    status.setText(said);
    status.setVisibility(said.isEmpty() ? View.GONE : View.VISIBLE);
    progress.setVisibility(phase == Chat.Phase.LOADING ? View.VISIBLE : View.GONE);
    progress.setProgress(chat.progress());
    list.setKeepScreenOn(busy);
    if (shown != chat.size()) lines.notifyDataSetChanged();
    shown = chat.size();
    lines.grow();
    showEmpty(phase);
    String heard = chat.dictation.take();
    if (!heard.isEmpty()) draft.append(draft.length() == 0 ? heard : " " + heard);
    boolean records = chat.dictation.records(), hears = chat.dictation.hears();
    show(speak, records ? R.drawable.ic_done : hears ? R.drawable.ic_close : R.drawable.ic_mic,
        records ? R.string.done : hears ? R.string.cancel : R.string.speak);
    if (chat.generates()) show(send, R.drawable.ic_stop, R.string.stop);
    else if (phase == Chat.Phase.LOADING) show(send, R.drawable.ic_close, R.string.cancel_load);
    else if (phase == Chat.Phase.UNLOADED) show(send, R.drawable.ic_load, R.string.load);
    else show(send, R.drawable.ic_send, R.string.send);
    send.setEnabled(busy || chat.ready() || phase == Chat.Phase.UNLOADED);
  }

  @Override
  public void onToken() {
    lines.grow();
  }

  private void showEmpty(Chat.Phase phase) {
    empty.setVisibility(chat.size() == 0 && phase != Chat.Phase.STARTING ? View.VISIBLE : View.GONE);
    ((TextView) findViewById(R.id.empty_text)).setText(phase == Chat.Phase.NO_MODEL ? R.string.no_model : R.string.no_messages);
    Button choose = findViewById(R.id.empty_choose);
    choose.setVisibility(phase == Chat.Phase.NO_MODEL ? View.VISIBLE : View.GONE);
  }

  private void show(ImageButton button, int icon, int words) {
    String text = getString(words);
    if (text.contentEquals(button.getContentDescription() == null ? "" : button.getContentDescription())) return;
    button.setImageResource(icon);
    button.setContentDescription(text);
    button.setTooltipText(text);
  }
}
