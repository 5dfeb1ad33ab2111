package weft.demo;

import android.app.Activity;
import android.app.AlertDialog;
import android.view.View;
import android.widget.RadioButton;
import android.widget.RadioGroup;
import android.widget.Switch;
import weft.GenerationStats;
import weft.ModelInfo;

/** Settings in plain words, and the figures for those who know what they mean. */
final class Dialogs {
  private Dialogs() {}

  static AlertDialog settings(Activity activity, Chat chat) {
    View view = activity.getLayoutInflater().inflate(R.layout.settings, null);
    Switch polite = view.findViewById(R.id.polite);
    polite.setChecked(chat.polite());
    polite.setOnCheckedChangeListener((button, checked) -> chat.setPolite(checked));
    String[] heads = activity.getResources().getStringArray(R.array.heads);
    String[] words = activity.getResources().getStringArray(R.array.head_words);
    RadioGroup group = view.findViewById(R.id.heads);
    for (int i = 0; i < heads.length; ++i) {
      RadioButton button = (RadioButton) activity.getLayoutInflater().inflate(R.layout.choice, group, false);
      button.setId(i + 1);
      button.setText(words[i]);
      button.setChecked(heads[i].equals(chat.head()));
      group.addView(button);
    }
    group.setOnCheckedChangeListener((radios, id) -> chat.setHead(heads[id - 1]));
    return new AlertDialog.Builder(activity)
        .setTitle(R.string.settings)
        .setView(view)
        .setPositiveButton(R.string.close, null)
        .show();
  }

  static AlertDialog details(Activity activity, Chat chat) {
    return new AlertDialog.Builder(activity)
        .setTitle(R.string.details)
        .setMessage(details(chat))
        .setPositiveButton(R.string.close, null)
        .show();
  }

  static String details(Chat chat) {
    ModelInfo info = chat.info();
    if (info == null) return chat.text(R.string.no_details);
    String policy = chat.text(chat.polite() ? R.string.policy_polite : R.string.policy_throughput);
    String model =
        chat.text(
            R.string.details_model, chat.name(), info.family(), info.type(), info.parameters() / 1e6, info.device(),
            info.driver(), chat.head(), policy);
    GenerationStats s = chat.stats();
    if (s == null) return model;
    double speed = s.decodeSeconds() > 0 ? s.decodedTokens() / s.decodeSeconds() : 0;
    long rows = s.headTokens() > 0 ? s.headRows() / s.headTokens() : 0;
    return model
        + "\n\n"
        + chat.text(R.string.details_answer, s.contextUsed(), s.promptTokens(), s.firstTokenSeconds(), speed, rows);
  }
}
