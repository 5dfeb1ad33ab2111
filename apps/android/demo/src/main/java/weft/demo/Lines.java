package weft.demo;

import android.content.res.ColorStateList;
import android.view.Gravity;
import android.view.LayoutInflater;
import android.view.View;
import android.view.ViewGroup;
import android.widget.BaseAdapter;
import android.widget.LinearLayout;
import android.widget.ListView;
import android.widget.TextView;
import weft.Message;

/** The messages as rows of a list. */
final class Lines extends BaseAdapter {
  private static final int END = -1_000_000; // pixels above a row that are more than it has

  private final Chat chat;
  private final ListView list;

  Lines(Chat chat, ListView list) {
    this.chat = chat;
    this.list = list;
    list.setAdapter(this);
  }

  /** Shows the last message as it is now; the other rows stay. */
  void grow() {
    int last = getCount() - 1;
    View row = list.getChildAt(last - list.getFirstVisiblePosition());
    if (last < 0 || row == null) return; // it is not on the screen
    boolean atEnd = !list.canScrollVertically(1);
    show((TextView) row.findViewById(R.id.text), chat.message(last));
    if (atEnd) list.setSelectionFromTop(last, END);
  }

  void toEnd() {
    if (getCount() > 0) list.setSelectionFromTop(getCount() - 1, END);
  }

  @Override
  public int getCount() {
    return chat.size();
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
    View row = recycled;
    if (row == null) row = LayoutInflater.from(parent.getContext()).inflate(R.layout.line, parent, false);
    Message message = chat.message(i);
    boolean user = message.role().equals("user");
    TextView text = row.findViewById(R.id.text);
    show(text, message);
    int colour = parent.getContext().getColor(user ? R.color.user : R.color.assistant);
    text.setBackgroundTintList(ColorStateList.valueOf(colour));
    text.setMaxWidth(parent.getWidth() == 0 ? Integer.MAX_VALUE : parent.getWidth() * 6 / 7);
    ((LinearLayout) row).setGravity(user ? Gravity.END : Gravity.START);
    return row;
  }

  private static void show(TextView text, Message message) {
    String content = message.content();
    if (content.isEmpty()) text.setText("\u2026");
    else text.setText(message.role().equals("user") ? content : Markdown.of(content));
  }
}
