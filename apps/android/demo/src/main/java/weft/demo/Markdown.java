package weft.demo;

import android.graphics.Typeface;
import android.text.SpannableStringBuilder;
import android.text.Spanned;
import android.text.style.BulletSpan;
import android.text.style.RelativeSizeSpan;
import android.text.style.StyleSpan;
import android.text.style.TypefaceSpan;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** The Markdown that models write most: headings, lists, **bold**, *italic*, `code`, and blocks of it. The rest stays as it is. */
final class Markdown {
  private static final Pattern BULLET = Pattern.compile("\\s*[-*+] +(.*)");
  private static final Pattern HEADING = Pattern.compile("#{1,6} +(.*)");
  // A mark next to a space is an operator, and "*" alone a footnote.
  private static final Pattern MARKED =
      Pattern.compile("`([^`]+)`|\\*\\*(?!\\s)(.+?)(?<!\\s)\\*\\*|\\*(?![\\s*])([^*]+?)(?<!\\s)\\*");

  private final SpannableStringBuilder out = new SpannableStringBuilder();

  private Markdown() {}

  static CharSequence of(String text) {
    Markdown markdown = new Markdown();
    boolean code = false;
    int begin = 0; // of the block of code
    for (String line : text.split("\n", -1)) {
      if (line.trim().startsWith("```")) {
        if (code) markdown.span(begin, new TypefaceSpan("monospace"));
        begin = markdown.out.length();
        code = !code;
      } else {
        if (code) markdown.out.append(line);
        else markdown.line(line);
        markdown.out.append('\n');
      }
    }
    if (code) markdown.span(begin, new TypefaceSpan("monospace")); // it has not come to its end yet
    int length = markdown.out.length();
    if (length > 0) markdown.out.delete(length - 1, length);
    return markdown.out;
  }

  private void line(String line) {
    Matcher bullet = BULLET.matcher(line), heading = HEADING.matcher(line);
    int begin = out.length();
    if (bullet.matches()) {
      words(bullet.group(1));
      span(begin, new BulletSpan(20));
    } else if (heading.matches()) {
      words(heading.group(1));
      span(begin, new StyleSpan(Typeface.BOLD));
      span(begin, new RelativeSizeSpan(1.15f));
    } else {
      words(line);
    }
  }

  private void words(String text) {
    Matcher marked = MARKED.matcher(text);
    int end = 0;
    while (marked.find()) {
      out.append(text, end, marked.start());
      int begin = out.length();
      end = marked.end();
      if (marked.group(1) != null) {
        out.append(marked.group(1));
        span(begin, new TypefaceSpan("monospace"));
      } else {
        boolean bold = marked.group(2) != null;
        words(bold ? marked.group(2) : marked.group(3));
        span(begin, new StyleSpan(bold ? Typeface.BOLD : Typeface.ITALIC));
      }
    }
    out.append(text, end, text.length());
  }

  private void span(int begin, Object style) {
    out.setSpan(style, begin, out.length(), Spanned.SPAN_EXCLUSIVE_EXCLUSIVE);
  }
}
