"""Words of English that a rule cannot fold: those of no meaning, and forms that no suffix explains.

Only what is true of the language at large stands here. Both tables are keyed by the folded surface form (lower case, no
accents), which is what `fold` looks up before it stems.
"""

from typing import Final

_NO_MEANING: Final = """
a about above after again against ago all also am an and any anybody anyone anything are aren around as at away be
became because been before being below between bit both but by can cannot cant come could couldn d did didn do does
doesn doing don done down during each either else even ever every everybody everyone everything few for from
further get gets getting got had hadn has hasn have haven having he her here hers herself hi hello hey him himself
his how however i if in into is isn it its itself just kind ll let lot many may me might mine more most much must
my myself no nor not now of off oh ok okay on once one only onto or other our ours ourselves out over own per
please quite rather re really s said same say says shall she should shouldn since so some somebody someone
something such t tell than thanks that the their theirs them themselves then there these they thing things this
those though through to too toward towards under until up upon us ve very via was wasn we well were weren what
whatever when whenever where wherever whether which while who whoever whom whose why will with within without won
would wouldn yes yet you your yours yourself yourselves
"""

# Of these, the ones that are as often names or things; asked for when nothing else of a question is found.
PERHAPS_NAMES: Final = frozenset({"can", "don", "down", "kind", "lot", "may", "might", "mine", "per", "well", "will"})

# The same of Chinese, for characters that stand alone.
NO_MEANING_CHARACTERS: Final = frozenset(
    "的了是在我你您他她它们这那哪什么吗呢吧啊和与或就都也很不有个谁怎样几多为把被给对从到说要会能"
)

# base: other forms. Those whose other reading is as common are left out (`left`, `saw`, `rose`, `wound`, `lives`).
_FORMS: Final = """
arise: arose arisen
awake: awoke awoken
bear: borne
beat: beaten
begin: began begun
bend: bent
bite: bitten
bleed: bled
blow: blew blown
break: broke broken
breed: bred
bring: brought
build: built
burn: burnt
buy: bought
catch: caught
choose: chose chosen
cling: clung
creep: crept
deal: dealt
dig: dug
draw: drew drawn
dream: dreamt
drink: drank drunk
drive: drove driven
dwell: dwelt
eat: ate eaten
fall: fell fallen
feed: fed
feel: felt
fight: fought
find: found
flee: fled
fling: flung
fly: flew flown flies
foot: feet
forbid: forbade forbidden
forget: forgot forgotten
forgive: forgave forgiven
freeze: froze frozen
give: gave given
go: went gone goes
goose: geese
grow: grew grown
half: halves
hang: hung
hear: heard
hide: hid hidden
hold: held
keep: kept
kneel: knelt
knife: knives
know: knew known
lay: laid
lead: led
lean: leant
leap: leapt
learn: learnt
lend: lent
light: lit
loaf: loaves
lose: lost
make: made
man: men
mean: meant
meet: met
mouse: mice
pay: paid
person: people
ride: rode ridden
ring: rang rung
rise: risen
run: ran
see: saw seen
seek: sought
sell: sold
send: sent
sew: sewn
shake: shook shaken
shelf: shelves
shine: shone
shoot: shot
show: shown
shrink: shrank shrunk
sing: sang sung
sink: sank sunk
sit: sat
sleep: slept
slide: slid
sow: sown
speak: spoke spoken
speed: sped
spell: spelt
spend: spent
spill: spilt
spin: spun
spring: sprang sprung
stand: stood
steal: stole stolen
stick: stuck
sting: stung
strike: struck
string: strung
strive: strove
swear: swore sworn
sweep: swept
swell: swollen
swim: swam swum
swing: swung
take: took taken
teach: taught
tear: tore torn
tell: told
think: thought
thief: thieves
throw: threw thrown
tooth: teeth
understand: understood
wake: woke woken
wear: wore worn
weave: wove woven
weep: wept
wife: wives
win: won
withdraw: withdrew withdrawn
wolf: wolves
woman: women
write: wrote written
2: two
3: three
4: four
5: five
6: six
7: seven
8: eight
9: nine
10: ten
11: eleven
12: twelve
13: thirteen
14: fourteen
15: fifteen
16: sixteen
17: seventeen
18: eighteen
19: nineteen
20: twenty
30: thirty
40: forty
50: fifty
60: sixty
70: seventy
80: eighty
90: ninety
mother: mom mum mommy mummy mama
father: dad daddy papa
grandmother: grandma granny nana
grandfather: grandpa granddad grandad
kid: child children
television: tv telly
photograph: photo
picture: pic
bicycle: bike
refrigerator: fridge
telephone: phone
advertisement: ad advert
colour: color
favourite: favorite
neighbour: neighbor
theatre: theater
centre: center
grey: gray
"""

NO_MEANING: Final = frozenset(_NO_MEANING.split())


def _other_forms() -> dict[str, str]:
    forms = {}
    for line in _FORMS.strip().splitlines():
        base, _, others = line.partition(": ")
        forms.update(dict.fromkeys(others.split(), base))
    return forms


# form → base: "went" → "go".
OTHER_FORMS: Final = _other_forms()
