"""Stop words of four languages, and lemmas (simplemma)."""

from __future__ import annotations

from collections.abc import Callable

from ontodex.errors import ConfigError, require

# Words that carry grammar, not subject, written for this project. The pieces of words with an
# apostrophe (don't, l'eau) are among them, since the tokeniser splits there.

_ENGLISH = """
a about above after again against all almost also although always am among an and another any are
aren around as at be became because been before being below between both but by can cannot could
couldn d did didn do does doesn doing don done down due during each either else etc even ever
every few for from further had hadn has hasn have haven having he hence her here hers herself him
himself his how however i if in indeed instead into is isn it its itself just ll m many may me
might mine more moreover most much must my myself neither never no nor not now of off often on
once one only onto or other others our ours ourselves out over own per perhaps quite rather re s
same shall she should shouldn since so some such t than that the their theirs them themselves then
there thereby therefore these they this those though through throughout thus to together too
toward towards under until up upon us ve very via was wasn we were weren what whatever when where
whereas wherein whether which while who whom whose why will with within without won would wouldn
yet you your yours yourself yourselves
"""

_GERMAN = """
ab aber alle allem allen aller alles als also am an ander andere anderem anderen anderer anderes
auch auf aus außer bei beide beiden beim bereits bevor bis bist da dabei dadurch dafür dagegen
daher damit danach dann daran darauf daraus darin darum darüber das dass davon dazu dein deine
deinem deinen deiner dem den denen denn dennoch der deren des deshalb dessen dich die dies diese
diesem diesen dieser dieses dir doch dort du durch eben ein eine einem einen einer eines einige
einigen einiger er erst es etwa etwas euch euer eure für gegen habe haben hat hatte hatten hier
hin hinter ich ihm ihn ihnen ihr ihre ihrem ihren ihrer ihres im immer in indem ins ist ja je jede
jedem jeden jeder jedes jedoch jene jenem jenen jener jenes jetzt kann kein keine keinem keinen
keiner können könnte machen man manche mehr mein meine meinem meinen meiner mich mir mit muss
müssen nach nachdem neben nein nicht nichts noch nun nur ob obwohl oder ohne sehr sei sein seine
seinem seinen seiner seines seit selbst sich sie sind so sobald sodass sogar solche solchem
solchen solcher soll sollen sollte sondern sonst sowie sowohl um und uns unser unsere unserem
unseren unter viel viele vielen vom von vor war waren warum was weder weil weiter welche welchem
welchen welcher welches wenn wer werde werden wie wieder will wir wird wo wurde wurden während
würde würden zu zum zur zwar zwischen über
"""

_FRENCH = """
afin ai ainsi alors après as au aucun aucune aujourd auquel aussi autre autres aux avaient avait
avant avec avoir ayant c car ce ceci cela celle celles celui cependant ces cet cette ceux chacun
chaque chez ci comme comment d dans de depuis des desquels deux devant doit doivent donc dont du
duquel durant dès elle elles en encore entre est et eu eux faire fait font furent fut hui ici il
ils j je jusqu jusque l la laquelle le lequel les lesquelles lesquels leur leurs lors lorsque lui
là m ma mais malgré me mes moi moins mon même mêmes n ne ni non nos notamment notre nous on ont ou
outre où par parce parmi pas pendant peu peut peuvent plus plusieurs pour pourquoi près puis
puisque qu quand que quel quelle quelles quels qui quoi s sa sans sauf se selon sera seront ses si
sien soi soit sont sous suis sur t ta tandis te tel telle telles tels tes toi ton tous tout toute
toutes très tu un une vers voici voilà vos votre vous y à étaient était étant été être
"""

_SPANISH = """
a ahora al algo alguna algunas alguno algunos algún ambos ante antes aquel aquella aquellas
aquello aquellos aquí así aun aunque aún bajo bien cada casi como con contra cual cuales cualquier
cuando cuándo cómo de debe deben del demás desde después donde dos durante dónde e el ella ellas
ello ellos en entonces entre era eran es esa esas ese eso esos esta estar estas este esto estos
está están fue fueron ha había habían han hasta hay he hemos incluso la las le les lo los luego me
mediante mejor menos mi mientras mis misma mismas mismo mismos mucha muchas mucho muchos muy más
nada ni ninguna ninguno ningún no nos nosotras nosotros nuestra nuestras nuestro nuestros nunca o
os otra otras otro otros para pero poco por porque puede pueden pues que quien quienes quién qué
se sea sean según ser si sido siempre sin sino sobre son su sus sí tal tales también tampoco tan
tanto te tener tiene tienen toda todas todavía todo todos tras tu tus tú u un una unas uno unos
usted ustedes vosotros y ya yo él
"""

STOP_WORDS = {
    "en": frozenset(_ENGLISH.split()),
    "de": frozenset(_GERMAN.split()),
    "fr": frozenset(_FRENCH.split()),
    "es": frozenset(_SPANISH.split()),
}


def load_lemmatiser(language: str) -> Callable[[str], str]:
    """Return a function from a word to its lemma in a language."""
    simplemma = require("simplemma", extra="learn", purpose="finding the lemmas of words")
    try:
        simplemma.lemmatize("test", lang=language)
    except ValueError as error:
        raise ConfigError(
            f"lemmas: there is no dictionary for the language {language!r}",
            hint="use a two-letter code such as en, de, fr or es, or leave lemmas empty",
        ) from error
    return lambda word: str(simplemma.lemmatize(word, lang=language))
