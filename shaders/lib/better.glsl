// The candidate with the greater score wins; with equal scores, the lower id.
bool better(Candidate a, Candidate b) { return a.score > b.score || (a.score == b.score && a.id < b.id); }
const Candidate NO_CANDIDATE = Candidate(-3.4e38, 0xffffffffu);
