// Of two candidates the greater score wins, and the lower id among equals.
bool better(Candidate a, Candidate b) { return a.score > b.score || (a.score == b.score && a.id < b.id); }
const Candidate NO_CANDIDATE = Candidate(-3.4e38, 0xffffffffu);
