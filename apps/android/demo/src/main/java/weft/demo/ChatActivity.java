package weft.demo;

import android.Manifest;
import android.app.Activity;
import android.content.ContentResolver;
import android.content.Intent;
import android.content.pm.PackageManager;
import android.content.res.ColorStateList;
import android.database.Cursor;
import android.net.Uri;
import android.os.Bundle;
import android.provider.OpenableColumns;
import android.view.Gravity;
import android.view.Menu;
import android.view.MenuItem;
import android.view.View;
import android.view.ViewGroup;
import android.widget.AdapterView;
import android.widget.BaseAdapter;
import android.widget.Button;
import android.widget.EditText;
import android.widget.LinearLayout;
import android.widget.ListView;
import android.widget.Spinner;
import android.widget.Switch;
import android.widget.TextView;
import java.util.Arrays;
import weft.Message;

/** Shows the process's {@link Chat}, and keeps nothing itself but the text that is being written. */
public final class ChatActivity extends Activity implements Chat.Watcher {
  static final int PICK = 1;
  static final int PICK_SPEECH = 2;
  static final int RECORD = 3;

  private final Lines lines = new Lines();
  private Chat chat;
  private TextView status;
  private TextView stats;
  private EditText draft;
  private Button speak;
  private Button send;
  private Spinner head;
  private Switch polite;

  @Override
  protected void onCreate(Bundle saved) {
    super.onCreate(saved);
    setContentView(R.layout.chat);
    chat = Chat.of(this);
    status = findViewById(R.id.status);
    stats = findViewById(R.id.stats);
    draft = findViewById(R.id.draft);
    speak = findViewById(R.id.speak);
    send = findViewById(R.id.send);
    head = findViewById(R.id.head);
    polite = findViewById(R.id.polite);
    ((ListView) findViewById(R.id.lines)).setAdapter(lines);
    speak.setOnClickListener(view -> speak());
    send.setOnClickListener(view -> sendOrStop());
    String[] heads = getResources().getStringArray(R.array.heads);
    head.setSelection(Math.max(0, Arrays.asList(heads).indexOf(chat.head())));
    head.setOnItemSelectedListener(
        new AdapterView.OnItemSelectedListener() {
          @Override
          public void onItemSelected(AdapterView<?> parent, View view, int i, long id) {
            if (!heads[i].equals(chat.head())) chat.setHead(heads[i]);
          }

          @Override
          public void onNothingSelected(AdapterView<?> parent) {}
        });
  }

  @Override
  protected void onStart() {
    super.onStart();
    polite.setChecked(chat.polite());
    polite.setOnCheckedChangeListener(
        (view, checked) -> {
          if (checked != chat.polite()) chat.setPolite(checked);
        });
    chat.watch(this);
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
    if (item.getItemId() == R.id.fresh) {
      chat.clear();
    } else if (item.getItemId() == R.id.choose) {
      pick(PICK);
    } else if (item.getItemId() == R.id.choose_speech) {
      pick(PICK_SPEECH);
    } else {
      return super.onOptionsItemSelected(item);
    }
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
    try { // so that the next process may read it too
      getContentResolver().takePersistableUriPermission(document, Intent.FLAG_GRANT_READ_URI_PERMISSION);
    } catch (SecurityException ignored) {
      // Not every provider grants it: the user picks again then.
    }
    if (request == PICK) chat.load(document, nameOf(document));
    else chat.loadSpeech(document, nameOf(document));
  }

  private String nameOf(Uri document) {
    String[] columns = {OpenableColumns.DISPLAY_NAME};
    ContentResolver resolver = getContentResolver();
    try (Cursor cursor = resolver.query(document, columns, null, null, null)) {
      if (cursor != null && cursor.moveToFirst() && !cursor.isNull(0)) return cursor.getString(0);
    }
    return document.getLastPathSegment();
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
    if (request != RECORD) return;
    if (results.length == 1 && results[0] == PackageManager.PERMISSION_GRANTED) chat.dictation.press();
    else chat.show(getString(R.string.no_permission));
  }

  private void sendOrStop() {
    if (chat.generates()) {
      chat.stop();
      return;
    }
    String text = draft.getText().toString().trim();
    if (text.isEmpty()) return;
    draft.setText("");
    chat.send(text);
  }

  @Override
  public void onChange() {
    status.setText(chat.status());
    stats.setText(chat.stats());
    String heard = chat.dictation.take();
    if (!heard.isEmpty()) draft.append(draft.length() == 0 ? heard : " " + heard);
    speak.setText(chat.dictation.records() ? R.string.done : chat.dictation.hears() ? R.string.cancel : R.string.speak);
    send.setText(chat.generates() ? R.string.stop : R.string.send);
    send.setEnabled(chat.generates() || chat.ready());
    head.setEnabled(chat.ready());
    polite.setEnabled(chat.ready());
    lines.notifyDataSetChanged();
  }

  private final class Lines extends BaseAdapter {
    @Override
    public int getCount() {
      return chat == null ? 0 : chat.size();
    }

    @Override
    public Object getItem(int i) {
      return chat.message(i);
    }

    @Override
    public long getItemId(int i) {
      return i;
    }

    @Override
    public View getView(int i, View recycled, ViewGroup parent) {
      View row = recycled != null ? recycled : getLayoutInflater().inflate(R.layout.line, parent, false);
      Message message = chat.message(i);
      boolean user = message.role().equals("user");
      TextView text = row.findViewById(R.id.text);
      text.setText(message.content().isEmpty() ? "\u2026" : message.content());
      text.setBackgroundTintList(ColorStateList.valueOf(getColor(user ? R.color.user : R.color.assistant)));
      ((LinearLayout) row).setGravity(user ? Gravity.END : Gravity.START);
      return row;
    }
  }
}
