// The document at hand. While the entry form is open there is none, and nothing can be decided.

import { session } from "./session.js";

export const work = {
  document: null, // with its valid decisions, `verdicts`
  suggestions: [],
  people: [], // own decisions of each person: {user, verdicts}
  pairs: [], // agreement of each two people
  concepts: new Map(), // label -> {name, path} of decided concepts that were not suggested
};

export const isMine = ({ user }) => user === session.me.name;

// Return the decisions to show: all valid ones, or only those of the user.
export function getVerdicts() {
  if (!work.document) return [];
  if (!session.ownOnly || work.people.length === 0) return work.document.verdicts;
  return work.people.find(isMine)?.verdicts ?? [];
}

// Return the name of a concept in the language of the names.
export function nameConcept(label, otherwise = label) {
  const found = work.suggestions.find((each) => each.label === label) ?? work.concepts.get(label);
  return found?.name ?? otherwise;
}
